//! A caller's view of its call.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::CallContext;
use crate::call::marks::BEGUN;
use crate::call::state::CallState;
use crate::{HasCallContext, RetryInfo};

/// Shows a caller what happened in its call. Made by [`RetryInfo::track`].
///
/// If the request is cloned and sent several times, it shows the call that began last.
#[derive(Clone, Debug, Default)]
pub struct RetryInfoHandle(Arc<Mutex<Option<Arc<CallState>>>>);

/// Where a call shows itself. Weak, because the handle refers to the state that holds this.
#[derive(Clone, Debug)]
pub(crate) struct Watch(Weak<Mutex<Option<Arc<CallState>>>>);

impl Watch {
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
    /// Shows a call that begins to the caller, if it watches.
    #[cold]
    #[inline(never)]
    pub(super) fn show_to_caller(&self) {
        let caller = self.attempt.caller();
        if let Some(watch) = caller.and_then(|own| own.watch.as_ref()) {
            self.see(watch);
        }
    }

    /// Shows the call to the caller, if it has begun.
    fn show(&self, watch: &Watch) {
        if self.attempt.marks.has(BEGUN) {
            self.see(watch);
        }
    }

    fn see(&self, watch: &Watch) {
        if let Some(state) = &self.attempt.state {
            watch.see(CallState::shared_by(state));
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
        let watch = Watch(Arc::downgrade(&handle.0));
        context.show(&watch);
        context.change_caller(|own| own.watch = Some(watch));
        context.attempt.keep_options_apart();
        handle
    }

    /// The handle that the caller has; a new one otherwise.
    #[cfg(feature = "tokio")]
    pub(crate) fn tracked<R: HasCallContext>(request: &mut R) -> RetryInfoHandle {
        let caller = request.context_mut().attempt.caller();
        let known = caller.and_then(|own| own.watch.as_ref()?.0.upgrade());
        known.map_or_else(|| Self::track(request), RetryInfoHandle)
    }
}
