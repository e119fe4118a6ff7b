//! What layers do with a context.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{CallContext, CallHandle, Watch};
use crate::call::attempts::ConfigWaiter;
#[cfg(test)]
use crate::call::marks::CLAIMED;
use crate::call::marks::{BEGUN, CALLER, ENFORCED, POLICY, THROTTLE};
use crate::call::pool;
use crate::call::state::CallState;
use crate::driver::count_success;
use crate::{AttemptKind, AttemptReport, RetryThrottle, RoutePolicy, StopReason};

/// Methods for layers.
impl CallContext {
    /// For layers: attaches the route's policy. Of two layers the outer one's applies.
    #[inline(always)]
    pub fn stamp_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        if !self.attempt.marks.has(POLICY) {
            self.attempt.marks.set(POLICY);
            let kept = self.state().options.policy.as_ref();
            if !kept.is_some_and(|kept| Arc::ptr_eq(kept, &policy)) {
                self.attempt
                    .change_options(|options| options.policy = Some(policy));
            }
        }
        self
    }

    /// For layers: attaches the layer's throttle. Of two layers the outer one's applies.
    #[inline(always)]
    pub(crate) fn stamp_throttle(&mut self, throttle: &Arc<dyn RetryThrottle>) -> &mut Self {
        if !self.attempt.marks.has(THROTTLE) {
            self.attempt.marks.set(THROTTLE);
            let kept = self.state().options.throttle.as_ref();
            if !kept.is_some_and(|kept| Arc::ptr_eq(kept, throttle)) {
                let throttle = Arc::clone(throttle);
                self.attempt
                    .change_options(|options| options.throttle = Some(throttle));
            }
        }
        self
    }

    /// For layers: sets the limit that applies from here on, which the layer enforces.
    #[inline(always)]
    pub(crate) const fn enforce_limit(&mut self, at: Instant) {
        self.limit = Some(at);
        self.attempt.marks.set(ENFORCED);
    }

    /// For layers: the call begins, unless it has begun. Returns a handle to it.
    #[inline(always)]
    pub fn begin(&mut self) -> CallHandle {
        self.begun();
        self.attempt.marks.set(BEGUN);
        CallHandle(self.attempt.share())
    }

    /// For layers: true once a recovery layer, above or below, acts on the call.
    #[must_use]
    #[inline(always)]
    pub(crate) fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallState::is_claimed)
    }

    #[inline(always)]
    fn state(&mut self) -> &CallState {
        self.attempt.state.get_or_insert_with(pool::fresh)
    }

    /// The state of the call, which the caller sees from now on.
    #[inline(always)]
    fn begun(&mut self) -> &CallState {
        self.state();
        if self.attempt.marks.has(CALLER) && !self.attempt.marks.has(BEGUN) {
            self.show_to_caller();
        }
        self.state().of_call()
    }

    #[cold]
    #[inline(never)]
    fn show_to_caller(&self) {
        let caller = self.attempt.caller();
        if let Some(watch) = caller.and_then(|own| own.watch.as_ref()) {
            self.see(watch);
        }
    }

    /// Shows the call to the caller, if it has begun.
    pub(super) fn show(&self, watch: &Watch) {
        if self.attempt.marks.has(BEGUN) {
            self.see(watch);
        }
    }

    fn see(&self, watch: &Watch) {
        if let Some(state) = &self.attempt.state {
            watch.see(CallState::shared_by(state));
        }
    }

    /// For simulators: this call is acted on; recovery layers pass it through.
    #[cfg(test)]
    pub(crate) fn claim(&mut self) {
        self.begun().claim();
        self.attempt.marks.set(CLAIMED | BEGUN);
    }

    /// For recovery layers: claims the call and makes this the context of its first attempt.
    #[inline(always)]
    pub(crate) fn claim_first(&mut self) {
        self.begun().claim_first();
        self.attempt.marks.claim_first();
    }

    /// For recovery layers that leave the call to another one, which may not exist: what is sent
    /// now is the first attempt.
    pub(crate) fn pass_first(&mut self) {
        self.begun().pass_first();
        self.attempt.marks.pass_first();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline(always)]
    pub(crate) fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        let seat = self.begun().sent(number, kind == AttemptKind::Transparent);
        self.attempt.marks.set_attempt(seat, kind);
    }

    /// For recovery layers: an attempt is pending. If the log is on, the call began now at the
    /// latest.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn waits(&self) {
        if crate::observe::log::is_on() {
            self.waits_at(crate::clock::now);
        }
    }

    /// The same where the clock was read already.
    #[cold]
    #[inline(never)]
    pub(crate) fn waits_at(&self, now: impl FnOnce() -> Instant) {
        if let Some(state) = self.shared() {
            state.waits(now);
        }
    }

    /// For recovery layers: keeps what the call is about, if the log is on.
    #[cfg(feature = "tokio")]
    pub(crate) fn describe(&self, subject: impl FnOnce() -> crate::CallSubject) {
        if let Some(state) = self.shared().filter(|_| crate::observe::log::is_on()) {
            // A call whose first attempt failed at once has not waited so far.
            state.waits(crate::clock::now);
            state.describe(|| {
                let method = || Some(self.method()?.name().into());
                let mut subject = subject();
                subject.method = subject.method.or_else(method);
                subject
            });
        }
    }

    /// How long the call took up to `now`.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        self.shared()
            .map_or(Duration::ZERO, |state| state.took(now))
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
                count_success(&**throttle, 1, None);
            }
            StopReason::Success
        };
        if let Some(state) = state {
            state.won(stopped);
        }
    }

    /// The same for one of several attempts: unless it is the first, the throttle also receives the
    /// failure of the last permitted retry.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_recovery(&self, committed: bool) {
        let later = !committed && self.attempt() > 1;
        match self.throttle().filter(|_| later) {
            Some(throttle) => {
                let permitted = self.shared().and_then(CallState::last_permitted);
                count_success(&**throttle, self.attempt(), permitted.as_ref());
                if let Some(state) = self.shared() {
                    state.won(StopReason::Success);
                }
            }
            None => self.settle_success(committed),
        }
    }

    /// For recovery layers: true if this is a copy of that context, of the same attempt of the same
    /// call.
    #[must_use]
    #[inline]
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        match (&self.attempt.state, &other.attempt.state) {
            (Some(own), Some(of_other)) => {
                Arc::ptr_eq(own, of_other) && self.attempt() == other.attempt()
            }
            _ => false,
        }
    }

    /// For recovery layers: the report of this attempt.
    #[must_use]
    pub fn report(&self) -> AttemptReport {
        let state = self.shared();
        state.map_or_else(AttemptReport::default, |state| {
            state.slots.read(self.seat())
        })
    }

    /// For balancers: this attempt is a hedge, and another attempt of the call is in flight.
    #[cfg(feature = "tokio")]
    pub(crate) fn may_lose(&self) -> bool {
        self.kind() == AttemptKind::Hedge
            && self
                .shared()
                .is_some_and(|state| state.others_in_flight(self.seat()))
    }

    /// For recovery layers: the waiter that a config-poll layer stored for this attempt.
    #[must_use]
    pub(crate) fn take_config_waiter(&self) -> Option<ConfigWaiter> {
        self.shared()?.take_waiter(self.attempt())
    }
}
