//! The record of each request.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::time::Instant;

use reattempt_couchbase::kv::Opcode;

use super::session;

/// Maximum number of recorded requests; the oldest are dropped first.
pub(super) const REMEMBERED: usize = 65_536;

/// A request as received by a node.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The operation.
    pub opcode: Opcode,
    /// The key without collection id; for `observe` its first key.
    pub key: Bytes,
    /// The collection id, when the connection negotiated collections and the request names a
    /// document.
    pub collection: Option<u32>,
    /// The vbucket.
    pub vbucket: u16,
    /// The number that matches a response to its request.
    pub opaque: u32,
    /// The CAS of the document.
    pub cas: u64,
    /// The extras.
    pub extras: Bytes,
    /// The value.
    pub value: Bytes,
    /// The encoded framing extras.
    pub framing: Bytes,
    /// The number of the connection at this node, from 1; counted across restarts.
    pub connection: u64,
    /// When it arrived.
    pub arrived: Instant,
}

impl SeenRequest {
    /// Whether the request is part of connection bootstrap.
    pub fn is_bootstrap(&self) -> bool {
        session::is_bootstrap(self.opcode)
    }
}

/// The bounded request log of a node.
#[derive(Debug, Default)]
pub(super) struct SeenLog(VecDeque<SeenRequest>);

impl SeenLog {
    pub(super) fn push(&mut self, request: SeenRequest) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(request);
    }

    pub(super) fn all(&self) -> Vec<SeenRequest> {
        self.0.iter().cloned().collect()
    }
}
