//! The requests of a connection that have no response yet.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use reattempt_couchbase::kv::Opcode;
use tokio::sync::oneshot;

use super::super::error::CloseReason;
use super::Outcome;

/// A request that waits for its response.
pub(super) struct Pending {
    pub(super) opcode: Opcode,
    pub(super) progress: Progress,
    pub(super) done: oneshot::Sender<Outcome>,
}

/// How far a request is.
pub(super) enum Progress {
    /// Its frame waits for the driver.
    Queued(Bytes),
    /// The driver has its frame, and has sent nothing of it.
    Taken,
    /// At least its first byte was sent.
    Sent,
}

impl Pending {
    pub(super) const fn is_sent(&self) -> bool {
        matches!(self.progress, Progress::Sent)
    }
}

#[derive(Default)]
pub(super) struct Requests {
    pub(super) next_opaque: u32,
    // Their opaques follow each other, and this side chooses them: a hash costs more.
    pub(super) pending: BTreeMap<u32, Pending>,
    /// The opaques of queued requests, in order, and of dropped ones: these are no longer pending.
    pub(super) queue: VecDeque<u32>,
    pub(super) closing: bool,
    pub(super) closed: Option<CloseReason>,
}

impl Requests {
    /// Removes the dropped requests from the queue once they are most of it, so that many drops
    /// cost no more than as many requests.
    pub(super) fn compact(&mut self) {
        if self.queue.len() > 2 * self.pending.len() {
            let Self { pending, queue, .. } = self;
            queue.retain(|opaque| pending.contains_key(opaque));
        }
    }
}
