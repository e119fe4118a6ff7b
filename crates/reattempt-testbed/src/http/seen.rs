//! What an HTTP server remembers of a request.

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use tokio::time::Instant;

use super::h2::{Ended, ErrorCode};

/// One request as it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenRequest {
    /// How many requests came before this one, over all connections.
    pub number: usize,
    /// Which connection it came on, counted from 0.
    pub connection: u64,
    /// Its stream in HTTP/2; 0 in HTTP/1.1.
    pub stream: u32,
    /// The protocol it was spoken in.
    pub version: Version,
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The headers, without the pseudo-headers of HTTP/2.
    pub headers: HeaderMap,
    /// The body, as far as it came; filled in when it is complete or broken off.
    pub body: Bytes,
    /// If the whole body came.
    pub body_complete: bool,
    /// When its head was read.
    pub arrival: Instant,
    /// Set when the client gave it up before it was answered.
    pub cancelled: Option<Cancelled>,
}

impl SeenRequest {
    /// The first value of a header as text; `None` when there is none, or it is not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// How and when a client gave up a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {
    /// The code of its RST_STREAM; `None` when it closed or broke the connection.
    pub code: Option<ErrorCode>,
    /// When.
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

    /// `None` when it was this server that ended the stream.
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
