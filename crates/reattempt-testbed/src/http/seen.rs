//! A request as recorded by an HTTP server.

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use tokio::time::Instant;

use super::h2::{Ended, ErrorCode};

/// One request as received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenRequest {
    /// The number of earlier requests, over all connections.
    pub number: usize,
    /// The index of its connection, counted from 0.
    pub connection: u64,
    /// Its stream in HTTP/2; 0 in HTTP/1.1.
    pub stream: u32,
    /// The HTTP version.
    pub version: Version,
    /// The method.
    pub method: Method,
    /// The path with the query.
    pub path: String,
    /// The headers, without the HTTP/2 pseudo-headers.
    pub headers: HeaderMap,
    /// The body received so far; set when it is complete or broken off.
    pub body: Bytes,
    /// Whether the whole body arrived.
    pub body_complete: bool,
    /// When the head was read.
    pub arrival: Instant,
    /// Set when the client cancelled before the response was complete.
    pub cancelled: Option<Cancelled>,
}

impl SeenRequest {
    /// The first value of a header as text; `None` when it is absent or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// How and when a client cancelled a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {
    /// The code of its RST_STREAM; `None` when it closed or broke the connection.
    pub code: Option<ErrorCode>,
    /// When the cancellation was received.
    pub at: Instant,
}

impl Cancelled {
    /// The client closed the connection.
    pub(crate) fn closed() -> Self {
        Self {
            code: None,
            at: Instant::now(),
        }
    }

    /// `None` when this server ended the stream.
    pub(crate) fn of(ended: Ended) -> Option<Self> {
        match ended {
            Ended::Reset(code) => Some(Self {
                code: Some(code),
                at: Instant::now(),
            }),
            Ended::Closed => Some(Self::closed()),
            Ended::ByServer => None,
        }
    }
}
