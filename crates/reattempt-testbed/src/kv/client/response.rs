//! An answer of a node.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use reattempt_couchbase::ErrorMap;
use serde::Deserialize;

use crate::kv::frame::{
    DATATYPE_JSON, FRAME_SERVER_DURATION, FRAME_THROTTLE_DURATION, Frame, FrameError,
    decode_duration, framing_extras,
};
use crate::kv::status;

/// Largest error body that is looked into, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// What a node says about an error in its body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ErrorContext {
    /// Text for people.
    pub context: Option<String>,
    /// What to look for in the node's log.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorContext,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct KvResponse {
    /// The status, see [`status`].
    pub status: u16,
    /// The operation that was asked for.
    pub opcode: u8,
    /// The document's version.
    pub cas: u64,
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The extras.
    pub extras: Bytes,
    /// How the value is written.
    pub datatype: u8,
    /// The framing extras as they were on the wire.
    pub framing: Bytes,
    /// How long the server took, when it says so.
    pub server_duration: Option<Duration>,
    /// How long the server wants to be left alone, when it says so.
    pub throttle_duration: Option<Duration>,
    /// What the server says about the error.
    pub error_context: Option<ErrorContext>,
    /// The node that answered, `host:port`.
    pub node: Arc<str>,
    /// Number of the connection, unique in this process.
    pub connection: u64,
    /// The error map that the node sent on this connection, when it could be read.
    pub error_map: Option<Arc<ErrorMap>>,
}

impl KvResponse {
    pub(super) fn new(
        frame: Frame,
        node: Arc<str>,
        connection: u64,
        error_map: Option<Arc<ErrorMap>>,
    ) -> Result<Self, FrameError> {
        let (mut server_duration, mut throttle_duration) = (None, None);
        for (id, mut data) in framing_extras(&frame.framing)? {
            let place = match id {
                FRAME_SERVER_DURATION => &mut server_duration,
                FRAME_THROTTLE_DURATION => &mut throttle_duration,
                _ => continue,
            };
            if data.len() == 2 {
                *place = Some(decode_duration(data.get_u16()));
            }
        }
        let mut error_context = None;
        // The body of 0x07 is a configuration, whatever its datatype says.
        if !matches!(frame.specific, status::SUCCESS | status::NOT_MY_VBUCKET)
            && frame.datatype & DATATYPE_JSON != 0
            && frame.value.len() <= MAX_ERROR_BODY
        {
            error_context = serde_json::from_slice::<ErrorBody>(&frame.value)
                .ok()
                .map(|body| body.error);
        }
        Ok(Self {
            status: frame.specific,
            opcode: frame.opcode,
            cas: frame.cas,
            key: frame.key,
            value: frame.value,
            extras: frame.extras,
            datatype: frame.datatype,
            framing: frame.framing,
            server_duration,
            throttle_duration,
            error_context,
            node,
            connection,
            error_map,
        })
    }

    /// Whether the status is success.
    pub fn is_success(&self) -> bool {
        self.status == status::SUCCESS
    }

    /// The flags of a document that was read.
    pub fn flags(&self) -> Option<u32> {
        let bytes: [u8; 4] = self.extras.as_ref().try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }

    /// The value of a counter.
    pub fn counter(&self) -> Option<u64> {
        let bytes: [u8; 8] = self.value.as_ref().try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    }

    /// The collection id that `get_collection_id` found.
    pub fn collection_id(&self) -> Option<u32> {
        let bytes: [u8; 4] = self.extras.get(8..12)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }
}
