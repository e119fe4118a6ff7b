//! A caller's view of its call.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::CallContext;
use crate::call::attempt_bits::BEGUN;
use crate::call::state::CallState;
use crate::{HasCallContext, RetryInfo};

/// Shows a caller what happened in its call. Made by [`RetryInfo::track`].
///
/// If the request is cloned and sent several times, it shows the call that began last.
#[derive(Clone, Debug, Default)]
pub struct RetryInfoHandle(Arc<Mutex<Option<Arc<CallState>>>>);

/// Where a call shows itself. Weak, because the handle refers to the state that holds this.
#[derive(Clone, Debug)]
pub(crate) struct WeakInfoHandle(Weak<Mutex<Option<Arc<CallState>>>>);

impl WeakInfoHandle {
    pub(super) fn see(&self, state: Arc<CallState>) {
        if let Some(handle) = self.0.upgrade() {
            let mut seen = handle.lock().unwrap_or_else(PoisonError::into_inner);
            let before = seen.replace(state);
            drop(seen);
            // Outside of the lock: it may own user code, whose drop may look at the call.
            drop(before);
        }
    }
}

impl RetryInfoHandle {
    #[cfg(test)]
    pub(super) fn weak(&self) -> Option<Weak<CallState>> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().map(Arc::downgrade)
    }

    /// What happened in the call so far; empty before a layer has seen the request.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref()
            .map_or_else(RetryInfo::default, |state| state.info())
    }
}

impl CallContext {
    /// Shows a call that begins to the caller, if it tracks the call.
    #[cold]
    #[inline(never)]
    pub(super) fn show_to_caller(&self) {
        let caller = self.attempt.caller();
        if let Some(weak) = caller.and_then(|own| own.info_handle.as_ref()) {
            self.see(weak);
        }
    }

    /// Shows the call to the caller, if it has begun.
    fn show(&self, weak: &WeakInfoHandle) {
        if self.attempt.bits.has(BEGUN) {
            self.see(weak);
        }
    }

    fn see(&self, weak: &WeakInfoHandle) {
        if let Some(state) = &self.attempt.state {
            weak.see(CallState::shared_by(state));
        }
    }
}

impl RetryInfo {
    /// Makes the result of this request's call visible to the caller: read
    /// [`RetryInfoHandle::info`] after the call, whether it succeeded, failed, timed out or was
    /// dropped. Of a request that is tracked twice only the handle that was made last shows
    /// anything.
    pub fn track<R: HasCallContext + ?Sized>(request: &mut R) -> RetryInfoHandle {
        let handle = RetryInfoHandle::default();
        let context = request.context_mut();
        let weak = WeakInfoHandle(Arc::downgrade(&handle.0));
        context.show(&weak);
        context.change_caller(|own| own.info_handle = Some(weak));
        context.attempt.keep_options_apart();
        handle
    }

    /// The handle that the caller has; a new one otherwise.
    #[cfg(feature = "tokio")]
    pub(crate) fn tracked<R: HasCallContext>(request: &mut R) -> RetryInfoHandle {
        let caller = request.context_mut().attempt.caller();
        let known = caller.and_then(|own| own.info_handle.as_ref()?.0.upgrade());
        known.map_or_else(|| Self::track(request), RetryInfoHandle)
    }
}
