//! The context of a call, which a request carries down the stack.

mod caller;
mod handle;
mod info_handle;
mod layers;
mod options;
mod progress;
mod reporter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use crate::call::attempts::AttemptKey;
use crate::call::marks::{CALLER, CLAIMED, ENFORCED, Marks, POLICY, THROTTLE};
use crate::call::state::{CallState, CallerOptions};
use crate::call::states;
use crate::info::Backend;
use crate::policy::throttle::count_success;
use crate::{AttemptKind, CallDeadline, Idempotency, RetryStrategy, RetryThrottle, RoutePolicy};
pub use handle::CallHandle;
pub use info_handle::RetryInfoHandle;
pub(crate) use info_handle::Watch;
pub use reporter::AttemptReporter;

/// The context of a call: its attempt, deadline, idempotency, policy, throttle, and user data.
///
/// What a caller sets is a template. A clone of a context on which no recovery layer acts yet
/// begins a call of its own, so that a request which is cloned above or between the layers never
/// shares a call. It has the deadline, but no layer that enforces it: one around the original need
/// not be around the clone. Below the recovery layer all clones of one attempt's context belong to
/// it.
///
/// The caller's settings override the policy's, and the policy's override the layer's; of two
/// deadlines the earlier applies.
#[derive(Debug, Default)]
pub struct CallContext {
    attempt: Attempt,
    deadline: Option<Instant>,
}

impl Clone for CallContext {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            attempt: if self.is_claimed() || self.attempt.state.is_none() {
                self.attempt.share()
            } else {
                self.attempt.copy()
            },
            deadline: self.deadline,
        }
    }
}

/// One attempt of a call: the call's state, and what belongs to this attempt alone.
#[derive(Debug, Default)]
struct Attempt {
    state: Option<Arc<CallState>>,
    marks: Marks,
}

// The state is dropped by value: without an address taken, a context stays in registers, and the
// drop call is small enough to be inlined wherever a context might be dropped.
impl Drop for Attempt {
    #[inline]
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            states::give_back(state);
        }
    }
}

impl Attempt {
    /// The same attempt of the same call.
    #[inline]
    fn share(&self) -> Self {
        Self {
            state: self.state.clone(),
            marks: self.marks,
        }
    }

    /// Its context, for observers.
    #[cfg(feature = "tokio")]
    fn context(&self) -> CallContext {
        CallContext {
            attempt: self.share(),
            deadline: None,
        }
    }

    /// The state of the call, if it has one.
    #[inline]
    fn call(&self) -> Option<&CallState> {
        self.state.as_deref().map(CallState::of_call)
    }

    /// The options that the caller set; few calls have any.
    #[inline]
    fn caller(&self) -> Option<&CallerOptions> {
        if self.marks.has(CALLER) {
            self.state.as_deref()?.options.caller.as_deref()
        } else {
            None
        }
    }

    /// The route's policy.
    #[inline]
    fn route_policy(&self) -> Option<&Arc<RoutePolicy>> {
        if self.marks.has(POLICY) {
            self.state.as_deref()?.options.policy.as_ref()
        } else {
            None
        }
    }

    /// The policy that applies: the caller's, else the route's.
    #[inline]
    fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.caller()
            .and_then(|own| own.policy.as_ref())
            .or_else(|| self.route_policy())
    }

    /// A layer below, and not the server, made the response of this attempt.
    #[inline]
    fn is_own_answer(&self) -> bool {
        self.call()
            .is_some_and(|state| state.is_own_answer(self.marks.key()))
    }

    /// The throttle counts that this attempt succeeded, with the failure for which it last paid.
    fn count_success(&self) {
        if let Some(throttle) = self.throttle().filter(|_| !self.is_own_answer()) {
            let paid = self.call().and_then(CallState::last_paid);
            count_success(&**throttle, self.marks.attempt(), paid.as_ref());
        }
    }

    /// The throttle that applies: the caller's, else the policy's, else the layer's.
    #[inline]
    fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.caller()
            .and_then(|own| own.throttle.as_ref())
            .or_else(|| self.policy()?.throttle())
            .or_else(|| {
                if self.marks.has(THROTTLE) {
                    self.state.as_deref()?.options.throttle.get()
                } else {
                    None
                }
            })
    }
}

/// What applies to the call and its attempt.
impl CallContext {
    /// The attempt's number, from 1; 0 above the recovery layers, and without any.
    #[must_use]
    #[inline]
    pub const fn attempt(&self) -> u32 {
        self.attempt.marks.attempt()
    }

    /// Why this attempt is sent.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> AttemptKind {
        self.attempt.marks.kind()
    }

    /// True below the recovery layer that acts on this call.
    #[must_use]
    #[inline]
    pub const fn is_claimed(&self) -> bool {
        self.attempt.marks.has(CLAIMED)
    }

    /// Whether the request may take effect twice.
    #[must_use]
    #[inline]
    pub const fn idempotency(&self) -> Idempotency {
        self.attempt.marks.idempotency()
    }

    /// The deadline that applies here.
    #[must_use]
    #[inline]
    pub const fn deadline(&self) -> Option<CallDeadline> {
        match self.deadline {
            Some(at) => Some(CallDeadline {
                at,
                enforced: self.attempt.marks.has(ENFORCED),
            }),
            None => None,
        }
    }

    /// For layers: sets the deadline that applies from here on, which the layer enforces.
    #[inline]
    pub(crate) const fn enforce_deadline(&mut self, at: Instant) {
        self.deadline = Some(at);
        self.attempt.marks.set(ENFORCED);
    }

    /// The policy that applies: the caller's, else the route's.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.attempt.policy()
    }

    /// False if there is certainly no policy and no strategy other than the layers' own.
    #[must_use]
    #[inline]
    pub const fn has_policy(&self) -> bool {
        self.attempt.marks.has(CALLER | POLICY)
    }

    /// The strategy that the caller set for this call.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> Option<&Arc<dyn RetryStrategy>> {
        self.attempt.caller()?.strategy.as_ref()
    }

    /// The throttle that applies: the caller's, else the policy's, else the layer's.
    #[must_use]
    #[inline]
    pub fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.attempt.throttle()
    }

    /// The same attempt of the same call, for a layer that looks at the call's end.
    #[inline]
    pub(crate) fn share(&self) -> Self {
        Self {
            attempt: self.attempt.share(),
            deadline: self.deadline,
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> Option<&CallState> {
        self.attempt.call()
    }

    #[inline]
    pub(crate) const fn key(&self) -> AttemptKey {
        self.attempt.marks.key()
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
