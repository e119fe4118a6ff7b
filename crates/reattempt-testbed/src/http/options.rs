//! The address, protocol and limits of a server.

use std::net::{Ipv4Addr, SocketAddr};

use super::h2::Bounds;

/// The HTTP versions that a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The version that the client starts with: the HTTP/2 preface, or anything else for HTTP/1.1.
    #[default]
    Both,
    /// HTTP/1.1 only; the HTTP/2 preface is answered with 400.
    Http1,
    /// HTTP/2 with prior knowledge only; anything else is answered with GOAWAY.
    Http2,
}

/// Server options. The default is a free port of 127.0.0.1 and both versions of HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) concurrent_streams: u32,
    pub(crate) body: usize,
    pub(crate) records: usize,
}

impl Options {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            protocol: Protocol::Both,
            concurrent_streams: 256,
            body: 16 << 20,
            records: 100_000,
        }
    }

    /// Listens at `address`, for a node that moves or comes back.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the HTTP versions; a gRPC server always speaks HTTP/2.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets and enforces SETTINGS_MAX_CONCURRENT_STREAMS, 256 by default. A stream beyond it is
    /// refused with REFUSED_STREAM.
    #[must_use]
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.concurrent_streams = streams;
        self
    }

    /// Sets the maximum body size of a request, 16 MiB by default. A larger one is answered with
    /// 413, or with RST_STREAM ENHANCE_YOUR_CALM.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            concurrent_streams: self.concurrent_streams,
            body: self.body,
        }
    }

    /// Sets how many calls are recorded: 100 000 by default; then the oldest are dropped.
    #[must_use]
    pub fn max_records(mut self, calls: usize) -> Self {
        self.records = calls;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
