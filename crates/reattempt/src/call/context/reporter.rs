//! Reports of inner layers and transports on one attempt.

use std::sync::Arc;

use crate::call::block::CallState;
use crate::call::findings::{AttemptKey, Backend, ConfigWaiter};
use crate::{ServerPushback, Stage};

/// Reports what an inner layer or a transport observes in one attempt.
///
/// Owned, cheap to clone, and safe to use late: a report on an attempt that is over is ignored, and
/// without a recovery layer it has no effect.
#[derive(Clone, Debug)]
pub struct AttemptReporter {
    pub(super) block: Option<Arc<CallState>>,
    pub(super) seat: AttemptKey,
}

impl AttemptReporter {
    fn with(&self, report: impl FnOnce(&CallState, AttemptKey)) {
        if let Some(block) = &self.block {
            report(block, self.seat);
        }
    }

    /// The reported attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.seat.attempt
    }

    /// The server's pushback; the latest report counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|block, seat| block.slots.pushback(seat, pushback));
    }

    /// The server's pushback could not be parsed: it counts as none, and the attempt's record shows
    /// it.
    pub fn pushback_unreadable(&self) {
        self.with(|block, seat| block.slots.pushback_unreadable(seat));
    }

    /// How far the attempt has come. The classifier's [`Stage::Response`] is final: a server's
    /// response overrides earlier reports.
    pub fn stage(&self, stage: Stage) {
        self.with(|block, seat| block.slots.stage(seat, stage));
    }

    /// The response is this layer's own and not the server's: the reported [stage](Self::stage)
    /// counts, whatever the classifier returns for the response. Without a reported stage the
    /// attempt counts as in flight.
    ///
    /// For layers that produce responses: an attempt timeout, load shedding.
    pub fn own_answer(&self) {
        self.with(|block, seat| block.slots.own_answer(seat));
    }

    /// Where the attempt was sent.
    pub fn backend(&self, backend: Backend) {
        self.with(|block, seat| block.backend(seat.attempt, backend));
    }

    /// Whether there is a backend that this call has not tried, this attempt included: see
    /// [`Transparent::NextBackend`](crate::Transparent::NextBackend). The last report counts,
    /// because an attempt that waits for a connection may try several backends.
    pub fn untried_backend(&self, is_left: bool) {
        self.with(|block, seat| block.slots.untried_backend(seat, is_left));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|block, seat| block.slots.forbid(seat));
    }

    /// A newer configuration was requested: `waiter` resolves when it is known whether it moved the
    /// call's target. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|block, seat| {
            // Without a recovery layer nothing takes the waiter, and the block may outlive the
            // call.
            if block.is_claimed() {
                block.leave_waiter(seat, waiter);
            }
        });
    }
}
