//! The context of a call, which a request carries down the stack.

mod caller;
mod handle;
mod info_handle;
mod layers;
mod reporter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use crate::call::attempts::AttemptKey;
use crate::call::marks::{BEGUN, CALLER, Marks, POLICY, THROTTLE};
use crate::call::options::{CallerOptions, Options};
use crate::call::pool;
use crate::call::state::CallState;
use crate::info::Backend;
use crate::{RetryThrottle, RoutePolicy};
pub use handle::CallHandle;
pub use info_handle::RetryInfoHandle;
pub(crate) use info_handle::Watch;
pub use reporter::AttemptReporter;

/// The context of a call: its attempt, limits, idempotency, policy, throttle, and user data.
///
/// What a caller sets is a template. A clone of a context on which no recovery layer acts yet
/// begins a call of its own, so that a request which is cloned above or between the layers never
/// shares a call. Below the recovery layer all clones of one attempt's context belong to it.
///
/// The caller's settings override the policy's, and the policy's override the layer's; of two time
/// limits the earlier applies.
#[derive(Debug, Default)]
pub struct CallContext {
    attempt: Attempt,
    limit: Option<Instant>,
}

impl Clone for CallContext {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self {
            attempt: if self.is_claimed() || self.attempt.state.is_none() {
                self.attempt.share()
            } else {
                self.attempt.copy()
            },
            limit: self.limit,
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
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            pool::give_back(state);
        }
    }
}

impl Attempt {
    /// The same attempt of the same call.
    #[inline(always)]
    fn share(&self) -> Self {
        Self {
            state: self.state.clone(),
            marks: self.marks,
        }
    }

    /// Another call with the same options. Does nothing that may unwind: wherever a context is
    /// cloned it then stays in registers (a retry layer's call: 37 instructions).
    #[cold]
    #[inline(never)]
    fn copy(&self) -> Self {
        let mut marks = self.marks;
        if let Some(call) = self.call().filter(|_| marks.has(BEGUN)) {
            call.copied();
        }
        marks.leave_call();
        let state = self.own_options().map(CallState::with);
        Self {
            state: state.map(Arc::new),
            marks,
        }
    }

    /// A copy of the options, if any of them is this call's. The marks, which are copied too, say
    /// which ones are.
    fn own_options(&self) -> Option<Options> {
        let state = self.state.as_ref()?;
        (self.marks.has(CALLER | POLICY | THROTTLE)).then(|| state.options.clone())
    }

    /// The state of the call, if it has one.
    #[inline(always)]
    fn call(&self) -> Option<&CallState> {
        self.state.as_deref().map(CallState::of_call)
    }

    /// Changes the options of this call. Other contexts and handles that share its state keep
    /// theirs: then this one gets options of its own, and stays an attempt of the same call.
    #[cold]
    #[inline(never)]
    fn change_options(&mut self, change: impl FnOnce(&mut Options)) {
        let Some(state) = &mut self.state else {
            let mut options = Options::default();
            change(&mut options);
            self.state = Some(Arc::new(CallState::with(options)));
            return;
        };
        if let Some(state) = Arc::get_mut(state) {
            return change(&mut state.options);
        }
        let call = CallState::shared_by(state);
        let mut options = self.own_options().unwrap_or_default();
        change(&mut options);
        self.state = Some(Arc::new(CallState::beside(call, options)));
    }

    /// The caller watches a call that has not begun: its state will hold no options. The caller's
    /// handle may keep it for long, and the options hold user data.
    fn keep_options_apart(&mut self) {
        if self.marks.has(BEGUN) {
            return;
        }
        let call = Arc::default();
        match self.state.as_mut().and_then(Arc::get_mut) {
            Some(state) => state.stand_beside(call),
            None => {
                let options = self.own_options().unwrap_or_default();
                self.state = Some(Arc::new(CallState::beside(call, options)));
            }
        }
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

    /// The throttle that applies: the caller's, else the policy's, else the layer's.
    #[inline]
    fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.caller()
            .and_then(|own| own.throttle.as_ref())
            .or_else(|| self.policy()?.throttle())
            .or_else(|| {
                if self.marks.has(THROTTLE) {
                    self.state.as_deref()?.options.throttle.as_ref()
                } else {
                    None
                }
            })
    }
}

impl CallContext {
    /// The same attempt of the same call, for a layer that looks at the call's end.
    #[inline(always)]
    pub(crate) fn share(&self) -> Self {
        Self {
            attempt: self.attempt.share(),
            limit: self.limit,
        }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> Option<&CallState> {
        self.attempt.call()
    }

    #[inline]
    pub(crate) const fn seat(&self) -> AttemptKey {
        self.attempt.marks.seat()
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.shared()?.backend_of(self.attempt())
    }
}
