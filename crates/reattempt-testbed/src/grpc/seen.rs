//! What a gRPC server remembers of a call.

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

use crate::http::Cancelled;

/// One call (to the server, each attempt is one) as it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenCall {
    /// How many calls came before this one, over all connections.
    pub number: usize,
    /// Which connection it came on, counted from 0.
    pub connection: u64,
    /// Its stream.
    pub stream: u32,
    /// `/package.Service/Method`.
    pub path: String,
    /// The metadata, with what gRPC itself sends (`grpc-timeout`, `content-type`, …).
    pub metadata: HeaderMap,
    /// The messages received so far.
    pub messages: Vec<Bytes>,
    /// If the client has said that no more messages come.
    pub half_closed: bool,
    /// When its head was read.
    pub arrival: Instant,
    /// Set when the client gave it up before its status was sent.
    pub cancelled: Option<Cancelled>,
}

impl SeenCall {
    /// The first value of a metadata key as text; `None` when there is none, or it is not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.metadata.get(name)?.to_str().ok()
    }

    /// All values of a metadata key as text, as they came.
    #[must_use]
    pub fn header_values(&self, name: &str) -> Vec<String> {
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.metadata.get_all(name).iter().map(text).collect()
    }

    /// `grpc-previous-rpc-attempts` (A6, "Exposed Retry Metadata").
    #[must_use]
    pub fn previous_attempts(&self) -> Option<u32> {
        self.header("grpc-previous-rpc-attempts")?.parse().ok()
    }
}
