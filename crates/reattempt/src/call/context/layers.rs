//! What layers attach to a call, and read of it.

use std::sync::Arc;

use super::{Attempt, CallContext};
#[cfg(feature = "tokio")]
use crate::AttemptKind;
#[cfg(feature = "tokio")]
use crate::CallDeadline;
use crate::attempt::Backend;
#[cfg(feature = "tokio")]
use crate::call::ResponseFailed;
#[cfg(feature = "tokio")]
use crate::call::attempt_bits::MAY_LOSE;
#[cfg(test)]
use crate::call::attempt_bits::{BEGUN, CLAIMED};
use crate::call::attempt_bits::{POLICY, THROTTLE};
#[cfg(feature = "tokio")]
use crate::call::state::AtEnd;
use crate::call::state::CallState;
use crate::call::state::{ConfigWaiter, Flag};
#[cfg(feature = "tokio")]
use crate::policy::health::Outcome;
use crate::policy::throttle::count_success;
use crate::{AttemptReport, Recovery, RetryThrottle, RoutePolicy};
#[cfg(feature = "tokio")]
use crate::{Failure, StopReason, Verdict};

impl CallContext {
    /// For layers: attaches the route's policy. Of two layers the outer one's applies.
    // The hints of this file: a third of the row `route`, 3 % of six layers.
    #[inline(always)]
    pub fn attach_policy(&mut self, policy: Arc<RoutePolicy>) -> &mut Self {
        if !self.attempt.bits.has(POLICY) {
            self.attempt.bits.set(POLICY);
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
    pub fn attach_throttle(&mut self, throttle: &Arc<dyn RetryThrottle>) -> &mut Self {
        if !self.attempt.bits.has(THROTTLE) {
            self.attempt.bits.set(THROTTLE);
            let kept = self.state().options.throttle.get();
            if !kept.is_some_and(|kept| Arc::ptr_eq(kept, throttle)) {
                self.attempt.attach(throttle);
            }
        }
        self
    }

    /// For layers: what the attempt says about its backend if it is dropped now.
    #[cfg(feature = "tokio")]
    pub(crate) fn dropped(&self) -> Outcome {
        // A layer above ended the call, because a message of the request is too long for example.
        // Of a call that a fatal answer ends, its other attempts are dropped before that is known.
        if self.shared().and_then(CallState::stopped) == Some(crate::StopReason::Fatal) {
            return Outcome::Nothing;
        }
        let passed = |deadline: CallDeadline| deadline.passed(crate::clock::now());
        if self.deadline().is_some_and(passed) {
            Outcome::TimedOut
        } else {
            Outcome::Dropped
        }
    }

    /// For layers: a layer below the recovery layer enforces the policy's attempt timeout.
    pub(crate) fn note_attempt_timeout(&self) {
        if let Some(state) = self.shared() {
            state.enforce_attempt_timeout();
        }
    }

    /// For recovery layers: true once a layer below enforced the policy's attempt timeout.
    #[must_use]
    pub(crate) fn has_attempt_timeout(&self) -> bool {
        self.shared().is_some_and(CallState::has_attempt_timeout)
    }

    /// For recovery layers: the waiter that a config-poll layer stored for this attempt.
    #[must_use]
    pub(crate) fn take_config_waiter(&self) -> Option<ConfigWaiter> {
        self.shared()?.take_waiter(self.attempt())
    }

    /// For an attempt whose response has begun and is [followed](AttemptReport::followed): this
    /// learns from its end.
    #[cfg(feature = "tokio")]
    pub(crate) fn at_end(&self, learns: AtEnd) {
        if let Some(state) = self.shared() {
            state.at_end_of(self.attempt(), learns);
        }
    }

    /// For balancers: where this attempt is sent, and whether there is a backend that the call has
    /// not tried.
    #[inline]
    pub(crate) fn sent_to(&self, backend: &Backend, untried: bool) {
        if let Some(state) = self.shared() {
            state.backend(self.attempt(), backend.clone());
            state.slots.put(self.key(), Flag::UNTRIED_BACKEND, untried);
        }
    }

    /// For balancers: no backend was tried, and the attempt is no hedge.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.kind() != AttemptKind::Hedge && !self.shared().is_some_and(CallState::is_logged)
    }

    /// For balancers: this attempt is a hedge, another one of the call is in flight, and if that
    /// fails the policy has a further one.
    #[cfg(feature = "tokio")]
    pub(crate) fn may_lose(&self) -> bool {
        self.attempt.bits.has(MAY_LOSE)
    }

    /// For layers that learn from the end of a response: the attempt is sent. If a layer above has
    /// sent it before, to follow a redirect for example, no caller gets that step's response, and
    /// the pushback in it was not meant for this step.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn sent_on(&self) {
        if let Some(state) = self.shared() {
            let key = self.attempt.bits.key();
            state.slots.forget_pushback(key);
            state.forget_own_answer(key);
            state.sent_on(self.attempt());
        }
    }
}

impl CallContext {
    /// For layers: true below a recovery layer that passed the call through because its policy has
    /// no recovery, so that this is its one attempt. Where another layer has to act, the layer may
    /// stand above that.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_sent_once(&self) -> bool {
        let policy = self.policy();
        let has_none = |policy: &Arc<RoutePolicy>| matches!(policy.recovery(), Recovery::None);
        self.attempt() > 0 && self.strategy().is_none() && policy.is_some_and(has_none)
    }

    /// For layers: true once a recovery layer, above or below, acts on the call.
    #[must_use]
    #[inline]
    pub(crate) fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallState::is_claimed)
    }

    /// For recovery layers: true once the end of the call is recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.shared().is_some_and(CallState::is_over)
    }

    /// For simulators: this call is acted on; recovery layers pass it through.
    #[cfg(test)]
    pub(crate) fn claim(&mut self) {
        self.begun().claim();
        self.attempt.bits.set(CLAIMED | BEGUN);
    }

    /// For recovery layers that leave the call to another one, which may not exist: what is sent
    /// now is the first attempt.
    pub(crate) fn pass_first(&mut self) {
        self.begun().pass_first();
        self.attempt.bits.pass_first();
    }

    /// For recovery layers: if this attempt fails, no caller misses it.
    #[cfg(feature = "tokio")]
    pub(crate) const fn allow_to_lose(&mut self) {
        self.attempt.bits.set(MAY_LOSE);
    }

    /// For recovery layers: true if a layer below, and not the server, made the outcome of this
    /// attempt. It then says nothing about the server.
    #[inline]
    pub(crate) fn is_own_answer(&self) -> bool {
        self.attempt.is_own_answer()
    }

    /// For layers that learn of a server: the attempt succeeded, by what a layer below made.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn is_own_success(&self, verdict: &Verdict) -> bool {
        verdict.failure().is_none() && self.is_own_answer()
    }

    /// True if a layer below reports the end of the attempt's response, or has done so.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_followed(&self) -> bool {
        self.shared()
            .is_some_and(|state| state.slots.is_followed(self.key()))
    }

    /// For recovery layers: what is called if the response, which is committed, fails later. Only
    /// if a layer below follows it.
    #[cfg(feature = "tokio")]
    #[inline(never)]
    pub(crate) fn watch_response(&self, failed: &ResponseFailed) {
        if let Some(state) = self.shared().filter(|_| self.is_followed()) {
            state.watch_response(Arc::clone(failed));
        }
    }

    /// A response failed after it was committed.
    #[cfg(feature = "tokio")]
    #[cold]
    pub(crate) fn response_failed(&self, stopped: StopReason, failure: Option<&Failure>) {
        if let Some(failed) = self.shared().and_then(CallState::take_watcher) {
            failed(self, stopped, failure);
        }
    }

    /// What the layers below, and the transport, have reported of this attempt so far: for
    /// classifiers, and for layers that decide by it.
    #[must_use]
    pub fn report(&self) -> AttemptReport {
        let state = self.shared();
        state.map_or_else(AttemptReport::default, |state| state.slots.read(self.key()))
    }

    /// For a refused attempt: whether another backend let one through.
    pub(crate) fn was_let_through_elsewhere(&self) -> bool {
        let attempt = self.attempt();
        self.shared()
            .is_some_and(|state| state.was_let_through_elsewhere(attempt))
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.shared()?.backend_of(self.attempt())
    }
}

impl Attempt {
    /// Its context, for observers.
    #[cfg(feature = "tokio")]
    pub(super) fn context(&self) -> CallContext {
        CallContext {
            attempt: self.share(),
            deadline: None,
        }
    }

    /// A layer below, and not the server, made the response of this attempt.
    #[inline]
    pub(super) fn is_own_answer(&self) -> bool {
        self.call()
            .is_some_and(|state| state.is_own_answer(self.bits.key()))
    }

    /// The throttle counts that this attempt succeeded, with the failure for which it last paid.
    pub(super) fn count_success(&self) {
        if let Some(throttle) = self.throttle().filter(|_| !self.is_own_answer()) {
            let paid = self.call().and_then(CallState::last_paid);
            count_success(&**throttle, self.bits.attempt(), paid.as_ref());
        }
    }
}
