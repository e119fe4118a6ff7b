//! What inner layers and transports report of one attempt, on its way up.

use std::sync::Arc;

use crate::block::CallBlock;
use crate::findings::{Backend, ConfigWaiter, Seat};
use crate::{ServerPushback, Stage};

/// Reports what an inner layer or a transport finds in one attempt.
///
/// Owned, cheap to clone, and harmless when late: a report on an attempt that is long over is
/// ignored, and without a recovery layer nobody listens.
#[derive(Clone, Debug)]
pub struct Reporter {
    pub(super) block: Option<Arc<CallBlock>>,
    pub(super) seat: Seat,
}

impl Reporter {
    fn with(&self, report: impl FnOnce(&CallBlock, Seat)) {
        if let Some(block) = &self.block {
            report(block, self.seat);
        }
    }

    /// The attempt that is reported on.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.seat.attempt
    }

    /// The server's word on another attempt; the latest counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|block, seat| block.slots.pushback(seat, pushback));
    }

    /// The server said something of another attempt that cannot be read: it counts as nothing, and
    /// the attempt's record tells of it.
    pub fn pushback_unreadable(&self) {
        self.with(|block, seat| block.slots.pushback_unreadable(seat));
    }

    /// How far the attempt has come. The classifier's [`Stage::Response`] is final: an answer of
    /// the server's beats what was reported before it.
    pub fn stage(&self, stage: Stage) {
        self.with(|block, seat| block.slots.stage(seat, stage));
    }

    /// The answer is this layer's own and not the server's: the [stage](Self::stage) that was
    /// reported counts, whatever the classifier says of the answer. Without a report of the stage
    /// the attempt was in flight.
    ///
    /// For layers that answer by themselves: an attempt's time limit, a limit that sheds.
    pub fn own_answer(&self) {
        self.with(|block, seat| block.slots.own_answer(seat));
    }

    /// Where the attempt went.
    pub fn backend(&self, backend: Backend) {
        self.with(|block, seat| block.backend(seat.attempt, backend));
    }

    /// Whether there is a backend that this call has not tried, this attempt included: see
    /// [`Transparent::NextBackend`](crate::Transparent::NextBackend). The last report counts,
    /// because an attempt that waits for a connection may go to several backends.
    pub fn untried_backend(&self, is_left: bool) {
        self.with(|block, seat| block.slots.untried_backend(seat, is_left));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|block, seat| block.slots.forbid(seat));
    }

    /// A newer configuration has been asked for: `waiter` resolves when it is known whether it
    /// moved what the call is about. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|block, seat| {
            // Without a recovery layer no one takes it, and the block may outlive the call.
            if block.is_claimed() {
                block.leave_waiter(seat, waiter);
            }
        });
    }
}
