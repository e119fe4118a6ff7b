//! A call as recorded by a gRPC server.

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

use crate::http::Cancelled;

/// One call as received; to the server each attempt is a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenCall {
    /// The number of earlier calls, over all connections.
    pub number: usize,
    /// The index of its connection, counted from 0.
    pub connection: u64,
    /// Its stream.
    pub stream: u32,
    /// `/package.Service/Method`.
    pub path: String,
    /// The metadata, including the headers of gRPC itself (`grpc-timeout`, `content-type`, …).
    pub metadata: HeaderMap,
    /// The messages received so far.
    pub messages: Vec<Bytes>,
    /// Whether the client has half-closed the stream.
    pub half_closed: bool,
    /// When the head was read.
    pub arrival: Instant,
    /// Set when the client cancelled before the status was sent.
    pub cancelled: Option<Cancelled>,
}

impl SeenCall {
    /// The first value of a metadata key as text; `None` when it is absent or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.metadata.get(name)?.to_str().ok()
    }

    /// `grpc-previous-rpc-attempts` (A6, "Exposed Retry Metadata").
    #[must_use]
    pub fn previous_attempts(&self) -> Option<u32> {
        self.header("grpc-previous-rpc-attempts")?.parse().ok()
    }
}
