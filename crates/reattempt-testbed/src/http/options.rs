//! Where and how a server listens, and what it takes at most.

use std::net::{Ipv4Addr, SocketAddr};

use super::h2::Bounds;

/// Which version of HTTP a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Whichever the client begins with: the preface of HTTP/2, or anything else.
    #[default]
    Both,
    /// HTTP/1.1 only; the preface of HTTP/2 is answered with 400.
    Http1,
    /// HTTP/2 with prior knowledge only; anything else is answered with GOAWAY.
    Http2,
}

/// How a server is set up. The default: a free port of 127.0.0.1, both versions of HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) concurrent_streams: u32,
    pub(crate) body: usize,
    pub(crate) records: usize,
}

impl Options {
    /// The defaults.
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

    /// Listens at `address`, as a node that moves or comes back does.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// The versions of HTTP spoken; a gRPC server always speaks HTTP/2.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS, which is also held: 256 by default. A stream beyond it is
    /// refused with REFUSED_STREAM.
    #[must_use]
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.concurrent_streams = streams;
        self
    }

    /// The most bytes taken of one request's body: 16 MiB by default. More is answered with 413,
    /// or with RST_STREAM ENHANCE_YOUR_CALM.
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

    /// How many calls are remembered: 100 000 by default, after which the oldest are forgotten.
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
