//! What layers attach to a call, and read of it.

use std::sync::Arc;

use super::CallContext;
#[cfg(feature = "tokio")]
use crate::AttemptKind;
#[cfg(feature = "tokio")]
use crate::CallDeadline;
use crate::call::attempts::{ConfigWaiter, Flag};
#[cfg(feature = "tokio")]
use crate::call::marks::MAY_LOSE;
use crate::call::marks::{POLICY, THROTTLE};
#[cfg(feature = "tokio")]
use crate::call::state::AtEnd;
use crate::call::state::CallState;
use crate::info::Backend;
#[cfg(feature = "tokio")]
use crate::policy::health::Outcome;
use crate::{RetryThrottle, RoutePolicy};

impl CallContext {
    /// For layers: attaches the route's policy. Of two layers the outer one's applies.
    // The hints of this file: a third of the row `route`, 3 % of six layers.
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
    pub fn stamp_throttle(&mut self, throttle: &Arc<dyn RetryThrottle>) -> &mut Self {
        if !self.attempt.marks.has(THROTTLE) {
            self.attempt.marks.set(THROTTLE);
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
        self.attempt.marks.has(MAY_LOSE)
    }

    /// For layers that learn from the end of a response: the attempt is sent. If a layer above has
    /// sent it before, to follow a redirect for example, no caller gets that step's response, and
    /// the pushback in it was not meant for this step.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn sent_on(&self) {
        if let Some(state) = self.shared() {
            let key = self.attempt.marks.key();
            state.slots.forget_pushback(key);
            state.forget_own_answer(key);
            state.sent_on(self.attempt());
        }
    }
}
