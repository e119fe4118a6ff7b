//! What layers do with a context.

use std::sync::Arc;
use std::time::Instant;

use super::stamps::shown;
use super::{CallContext, CallHandle, ThrottleStamp};
use crate::call::attempts::{AttemptKey, ConfigWaiter};
use crate::call::marks::ENFORCED;
use crate::call::pool;
use crate::call::state::CallState;
use crate::policy::throttle::Settled;
use crate::{AttemptKind, AttemptReport, RoutePolicy, StopReason};

/// Methods for layers.
impl CallContext {
    /// For layers: attaches the route's policy. Of two layers the outer one's applies.
    #[inline(always)]
    pub fn stamp_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        self.policy.get_or_insert(policy);
        self
    }

    /// For layers: attaches the layer's throttle. Of two layers the outer one's applies.
    #[inline(always)]
    pub(crate) fn stamp_throttle(&mut self, throttle: &ThrottleStamp) -> &mut Self {
        self.stamps = Some(match self.stamps.take() {
            None => Arc::clone(&throttle.0),
            Some(stamps) => throttle.on(stamps),
        });
        self
    }

    /// For layers: sets the limit that applies from here on, which the layer enforces.
    #[inline(always)]
    pub(crate) const fn enforce_limit(&mut self, at: Instant) {
        self.limit = Some(at);
        self.marks.set(ENFORCED);
    }

    /// For layers: allocates the call's state if it has none, and returns a handle to it.
    ///
    /// If a recovery layer acts on the state that is not above this layer, the state belongs to
    /// another call, from whose request this one was cloned: then this call gets its own state.
    #[inline(always)]
    pub fn begin(&mut self) -> CallHandle {
        if !self.is_claimed() && self.is_taken_up() {
            self.state = Some(self.begun());
        }
        self.state();
        CallHandle(self.state.clone(), self.seat())
    }

    /// For layers: true once a recovery layer, above or below, acts on the call of this context's
    /// state.
    #[must_use]
    #[inline(always)]
    pub(crate) fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallState::is_claimed)
    }

    // The cold functions below take and return handles by value: without an address taken, a
    // context stays in registers on its way through the layers.
    #[inline(always)]
    fn state(&mut self) -> Option<&CallState> {
        if self.state.is_none() {
            self.state = Some(self.begun());
        }
        self.shared()
    }

    #[inline(always)]
    fn begun(&self) -> Arc<CallState> {
        let state = pool::fresh();
        match self.caller() {
            Some(stamps) => shown(stamps, state),
            None => state,
        }
    }

    /// For simulators: this call is acted on; recovery layers pass it through.
    #[cfg(test)]
    pub(crate) fn claim(&mut self) {
        if !self.state().is_none_or(CallState::claim) {
            // A service above cloned the request after its call had begun: this is another call.
            self.state = Some(self.begun());
            self.shared().map(CallState::claim);
        }
        self.marks.set(crate::call::marks::CLAIMED);
    }

    /// For recovery layers: claims the call and makes this the context of its first attempt.
    #[inline(always)]
    pub(crate) fn claim_first(&mut self) {
        if !self.state().is_none_or(CallState::claim_first) {
            self.state = Some(self.begun());
            self.shared().map(CallState::claim_first);
        }
        self.marks.claim_first();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline(always)]
    pub(crate) fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        let seat = match self.state() {
            Some(state) => state.sent(number, kind == AttemptKind::Transparent),
            None => AttemptKey::first_choice(number),
        };
        self.marks.set_attempt(seat, kind);
    }

    /// For layers: a layer below the recovery layer enforces the policy's attempt timeout.
    pub(crate) fn note_attempt_limit(&self) {
        if let Some(state) = self.shared() {
            state.limit_attempts();
        }
    }

    /// For recovery layers: true once a layer below enforced the policy's attempt timeout.
    #[must_use]
    pub(crate) fn is_attempt_limited(&self) -> bool {
        self.shared().is_some_and(CallState::is_attempt_limited)
    }

    /// For recovery layers: the attempt succeeded, or its response is committed. Updates the
    /// throttle and the state, and leaves no record.
    #[inline(always)]
    pub(crate) fn settle_success(&self, committed: bool) {
        let state = self.shared();
        let stopped = if committed {
            if let Some(state) = state {
                state.slots.commit(self.seat());
            }
            StopReason::Committed
        } else {
            if let Some(throttle) = self.throttle() {
                throttle.settled(Settled::Success);
            }
            StopReason::Success
        };
        if let Some(state) = state {
            state.won(stopped);
        }
    }

    /// The same for one of several attempts: the throttle also receives the failure of the last
    /// permitted retry.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_recovery(&self, committed: bool) {
        let throttle = self.throttle().filter(|_| !committed);
        let permitted = throttle.and_then(|_| self.shared()?.last_permitted());
        match (permitted, throttle) {
            (Some(failure), Some(throttle)) => {
                throttle.recovered(&failure);
                if let Some(state) = self.shared() {
                    state.won(StopReason::Success);
                }
            }
            _ => self.settle_success(committed),
        }
    }

    /// For recovery layers: the call succeeded and this context is no longer needed. Another call
    /// may reuse its state once no other handle refers to it; a state with a log is freed by its
    /// owners.
    #[inline(always)]
    pub(crate) fn retire(&mut self) {
        if let Some(state) = self.state.take() {
            if state.is_logged() {
                state.drop_waiters();
            } else {
                pool::keep(state);
            }
        }
    }

    /// For recovery layers: true if this is a copy of that context, of the same attempt of the same
    /// call.
    #[must_use]
    #[inline]
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        match (&self.state, &other.state) {
            (Some(own), Some(other_block)) => {
                Arc::ptr_eq(own, other_block) && self.attempt() == other.attempt()
            }
            _ => false,
        }
    }

    /// For recovery layers: the report of this attempt.
    #[must_use]
    pub fn report(&self) -> AttemptReport {
        self.state
            .as_ref()
            .map_or_else(AttemptReport::default, |state| {
                state.slots.read(self.seat())
            })
    }

    /// For recovery layers: the waiter that a config-poll layer stored for this attempt.
    #[must_use]
    pub(crate) fn take_config_waiter(&self) -> Option<ConfigWaiter> {
        self.state.as_ref()?.take_waiter(self.attempt())
    }
}
