//! A response of a node.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use reattempt_couchbase::ErrorMap;
use reattempt_couchbase::kv::{Opcode, Status};
use serde::Deserialize;

use crate::kv::frame::{
    DATATYPE_JSON, FRAME_SERVER_DURATION, FRAME_THROTTLE_DURATION, Frame, FrameError,
    decode_duration, framing_extras,
};

/// Maximum error body that is parsed, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// The error information in a response body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ErrorContext {
    /// A description for people.
    pub context: Option<String>,
    /// The reference to search for in the node's log.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorContext,
}

/// A response with any status.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KvResponse {
    /// The status.
    pub status: Status,
    /// The requested operation.
    pub opcode: Opcode,
    /// The CAS of the document.
    pub cas: u64,
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The extras.
    pub extras: Bytes,
    /// The datatype bits of the value.
    pub datatype: u8,
    /// The encoded framing extras.
    pub framing: Bytes,
    /// The server duration, if the response carries it.
    pub server_duration: Option<Duration>,
    /// How long the client should back off, if the response carries it.
    pub throttle_duration: Option<Duration>,
    /// The server's error information.
    pub error_context: Option<ErrorContext>,
    /// The node that responded, `host:port`.
    pub node: Arc<str>,
    /// The number of the connection, unique in this process.
    pub connection: u64,
    /// The error map that the node sent on this connection, if it was valid.
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
        // The body of 0x07 is a configuration, whatever its datatype.
        if !matches!(frame.status(), Status::SUCCESS | Status::NOT_MY_VBUCKET)
            && frame.datatype & DATATYPE_JSON != 0
            && frame.value.len() <= MAX_ERROR_BODY
        {
            error_context = serde_json::from_slice::<ErrorBody>(&frame.value)
                .ok()
                .map(|body| body.error);
        }
        Ok(Self {
            status: frame.status(),
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
        self.status == Status::SUCCESS
    }

    /// The flags of a document.
    pub fn flags(&self) -> Option<u32> {
        let bytes: [u8; 4] = self.extras.as_ref().try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }

    /// The value of a counter.
    pub fn counter(&self) -> Option<u64> {
        let bytes: [u8; 8] = self.value.as_ref().try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    }

    /// The collection id in the response to `get_collection_id`.
    pub fn collection_id(&self) -> Option<u32> {
        let bytes: [u8; 4] = self.extras.get(8..12)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }
}
