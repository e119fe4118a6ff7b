//! A response of a node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reattempt_couchbase::ErrorMap;
use reattempt_couchbase::kv::{Opcode, Status};
use serde::Deserialize;

use crate::kv::frame::{
    Body, DATATYPE_JSON, FRAME_SERVER_DURATION, FRAME_THROTTLE_DURATION, FrameError, ReceivedFrame,
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

/// The connection that a response came over.
pub(super) struct Origin {
    pub(super) address: Arc<str>,
    pub(super) id: u64,
    pub(super) error_map: Option<Arc<ErrorMap>>,
}

/// A response with any status. It is cheap to clone and to move: its parts are ranges of the buffer
/// that was read.
#[derive(Clone)]
#[non_exhaustive]
pub struct KvResponse {
    /// The status.
    pub status: Status,
    /// The requested operation.
    pub opcode: Opcode,
    /// The CAS of the document.
    pub cas: u64,
    /// The datatype bits of the value.
    pub datatype: u8,
    body: Body,
    origin: Arc<Origin>,
}

impl KvResponse {
    /// An error if its framing extras are cut off.
    pub(super) fn new(frame: ReceivedFrame, origin: Arc<Origin>) -> Result<Self, FrameError> {
        if let Some(Err(error)) = framing_extras(frame.body.framing()).find(Result::is_err) {
            return Err(error);
        }
        Ok(Self {
            status: frame.status(),
            opcode: frame.opcode,
            cas: frame.cas,
            datatype: frame.datatype,
            body: frame.body,
            origin,
        })
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.body.key()
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        self.body.value()
    }

    /// The value, in the buffer that was read.
    pub fn into_value(self) -> Bytes {
        self.body.into_value()
    }

    /// The extras.
    pub fn extras(&self) -> &[u8] {
        self.body.extras()
    }

    /// The encoded framing extras, see [`framing_extras`].
    pub fn framing(&self) -> &[u8] {
        self.body.framing()
    }

    /// The node that responded, `host:port`.
    pub fn node(&self) -> &str {
        &self.origin.address
    }

    /// The node, for those that keep its name.
    pub(in crate::kv) fn named(&self) -> &Arc<str> {
        &self.origin.address
    }

    /// The number of the connection, unique in this process.
    pub fn connection(&self) -> u64 {
        self.origin.id
    }

    /// The error map that the node sent on this connection, if it was valid.
    pub fn error_map(&self) -> Option<&ErrorMap> {
        self.origin.error_map.as_deref()
    }

    /// Whether the status is success.
    pub fn is_success(&self) -> bool {
        self.status == Status::SUCCESS
    }

    /// The flags of a document.
    pub fn flags(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.extras().try_into().ok()?))
    }

    /// The value of a counter.
    pub fn counter(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.value().try_into().ok()?))
    }

    /// The collection id in the response to `get_collection_id`.
    pub fn collection_id(&self) -> Option<u32> {
        let bytes = self.extras().get(8..12)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    /// The server duration, if the response carries it.
    pub fn server_duration(&self) -> Option<Duration> {
        self.duration(FRAME_SERVER_DURATION)
    }

    /// How long the client should back off, if the response carries it.
    pub fn throttle_duration(&self) -> Option<Duration> {
        self.duration(FRAME_THROTTLE_DURATION)
    }

    fn duration(&self, wanted: u16) -> Option<Duration> {
        let extras = framing_extras(self.framing()).flatten();
        let data = extras.filter(|(id, _)| *id == wanted).map(|(_, data)| data);
        let encoded = data.filter_map(|data| data.try_into().ok()).last()?;
        Some(decode_duration(u16::from_be_bytes(encoded)))
    }

    /// The server's error information, read from the value.
    pub fn error_context(&self) -> Option<ErrorContext> {
        // The body of 0x07 is a configuration, whatever its datatype.
        let is_error = !matches!(self.status, Status::SUCCESS | Status::NOT_MY_VBUCKET);
        let is_json = self.datatype & DATATYPE_JSON != 0;
        if !is_error || !is_json || self.value().len() > MAX_ERROR_BODY {
            return None;
        }
        let body = serde_json::from_slice::<ErrorBody>(self.value()).ok()?;
        Some(body.error)
    }
}

impl fmt::Debug for KvResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvResponse")
            .field("status", &self.status)
            .field("opcode", &self.opcode)
            .field("cas", &self.cas)
            .field("key", &format_args!("b\"{}\"", self.key().escape_ascii()))
            .field(
                "value",
                &format_args!("b\"{}\"", self.value().escape_ascii()),
            )
            .field("node", &self.node())
            .finish_non_exhaustive()
    }
}
