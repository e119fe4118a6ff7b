//! Reports of inner layers and transports on one attempt.

use std::sync::Arc;

use crate::call::attempts::{AttemptKey, Backend, ConfigWaiter};
use crate::call::state::CallState;
use crate::{ServerPushback, Stage};

/// Reports what an inner layer or a transport observes in one attempt.
///
/// Owned, cheap to clone, and safe to use late: a report on an attempt that is over is ignored, and
/// without a recovery layer it has no effect.
#[derive(Clone, Debug)]
pub struct AttemptReporter {
    pub(super) state: Option<Arc<CallState>>,
    pub(super) seat: AttemptKey,
}

impl AttemptReporter {
    fn with(&self, report: impl FnOnce(&CallState, AttemptKey)) {
        if let Some(state) = &self.state {
            report(state, self.seat);
        }
    }

    /// The reported attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.seat.attempt
    }

    /// The server's pushback; the latest report counts.
    pub fn pushback(&self, pushback: ServerPushback) {
        self.with(|state, seat| state.slots.pushback(seat, pushback));
    }

    /// The server's pushback could not be parsed: it counts as none, and the attempt's record shows
    /// it.
    pub fn pushback_unreadable(&self) {
        self.with(|state, seat| state.slots.pushback_unreadable(seat));
    }

    /// How far the attempt has come. The classifier's [`Stage::Response`] is final: a server's
    /// response overrides earlier reports.
    pub fn stage(&self, stage: Stage) {
        self.with(|state, seat| state.slots.stage(seat, stage));
    }

    /// The response is this layer's own and not the server's: the reported [stage](Self::stage)
    /// counts, whatever the classifier returns for the response. Without a reported stage the
    /// attempt counts as in flight.
    ///
    /// For layers that produce responses: an attempt timeout, load shedding.
    pub fn own_answer(&self) {
        self.with(|state, seat| state.slots.own_answer(seat));
    }

    /// Where the attempt was sent.
    pub fn backend(&self, backend: Backend) {
        self.with(|state, seat| state.backend(seat.attempt, backend));
    }

    /// Whether there is a backend that this call has not tried, this attempt included: see
    /// [`Transparent::NextBackend`](crate::Transparent::NextBackend). The last report counts,
    /// because an attempt that waits for a connection may try several backends.
    pub fn untried_backend(&self, is_left: bool) {
        self.with(|state, seat| state.slots.untried_backend(seat, is_left));
    }

    /// Forbids another attempt of this call.
    pub fn forbid(&self) {
        self.with(|state, seat| state.slots.forbid(seat));
    }

    /// A newer configuration was requested: `waiter` resolves when it is known whether it moved the
    /// call's target. The recovery layer races it against its back-off.
    pub fn config_coming(&self, waiter: ConfigWaiter) {
        self.with(|state, seat| {
            // Without a recovery layer nothing takes the waiter, and the state may outlive the
            // call.
            if state.is_claimed() {
                state.leave_waiter(seat, waiter);
            }
        });
    }
}
