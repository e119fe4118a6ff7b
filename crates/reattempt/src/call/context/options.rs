//! The options of a call: which apply, and that they are copied on write. A context that shares its
//! state gets its own.

use std::sync::Arc;

use super::{Attempt, CallContext};
use crate::call::attempt_bits::{BEGUN, CALLER, POLICY, THROTTLE};
use crate::call::state::{CallState, CallerOptions, Options};
use crate::{RetryStrategy, RetryThrottle, RoutePolicy};

impl Attempt {
    /// Another call with the same options. Does nothing that may unwind: wherever a context is
    /// cloned it then stays in registers (a retry layer's call: 37 instructions).
    #[cold]
    #[inline(never)]
    pub(super) fn copy(&self) -> Self {
        let mut bits = self.bits;
        if let Some(call) = self.call().filter(|_| bits.has(BEGUN)) {
            call.copied();
        }
        bits.leave_call();
        let state = self.own_options().map(CallState::with);
        Self {
            state: state.map(Arc::new),
            bits,
        }
    }

    /// A copy of the options, if any of them is this call's. The bits, which are copied too, say
    /// which ones are.
    fn own_options(&self) -> Option<Options> {
        let state = self.state.as_ref()?;
        (self.bits.has(CALLER | POLICY | THROTTLE)).then(|| state.options.clone())
    }

    /// Changes the options of this call. Other contexts and handles that share its state keep
    /// theirs: then this one gets options of its own, and stays an attempt of the same call.
    #[cold]
    #[inline(never)]
    pub(super) fn change_options(&mut self, change: impl FnOnce(&mut Options)) {
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

    /// Another throttle than the one of the state's last call.
    #[cold]
    #[inline(never)]
    pub(super) fn attach(&mut self, throttle: &Arc<dyn RetryThrottle>) {
        let state = self.state.as_ref();
        let is_new =
            state.is_some_and(|state| state.options.throttle.set(throttle.clone()).is_ok());
        if !is_new {
            let throttle = Arc::clone(throttle).into();
            self.change_options(|options| options.throttle = throttle);
        }
    }

    /// The caller watches a call that has not begun: its state will hold no options. The caller's
    /// handle may keep it for long, and the options hold user data.
    pub(super) fn keep_options_apart(&mut self) {
        if self.bits.has(BEGUN) {
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
}

/// Which options apply.
impl Attempt {
    /// The options that the caller set; few calls have any.
    #[inline]
    pub(super) fn caller(&self) -> Option<&CallerOptions> {
        if self.bits.has(CALLER) {
            self.state.as_deref()?.options.caller.as_deref()
        } else {
            None
        }
    }

    /// The route's policy.
    #[inline]
    pub(super) fn route_policy(&self) -> Option<&Arc<RoutePolicy>> {
        if self.bits.has(POLICY) {
            self.state.as_deref()?.options.policy.as_ref()
        } else {
            None
        }
    }

    /// The policy that applies: the caller's, else the route's.
    #[inline]
    pub(super) fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.caller()
            .and_then(|own| own.policy.as_ref())
            .or_else(|| self.route_policy())
    }

    /// The throttle that applies: the caller's, else the policy's, else the layer's.
    #[inline]
    pub(super) fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.caller()
            .and_then(|own| own.throttle.as_ref())
            .or_else(|| self.policy()?.throttle())
            .or_else(|| {
                if self.bits.has(THROTTLE) {
                    self.state.as_deref()?.options.throttle.get()
                } else {
                    None
                }
            })
    }
}

impl CallContext {
    /// The policy that applies: the caller's, else the route's.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Option<&Arc<RoutePolicy>> {
        self.attempt.policy()
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
}
