//! A caller's view of its call.

use std::sync::{Arc, Mutex, PoisonError};

use crate::call::state::CallState;
use crate::{HasCallContext, RetryInfo};

/// Shows a caller what happened in its call. Made by [`RetryInfo::track`].
///
/// If the request is cloned and sent several times, it shows the call that began last.
#[derive(Clone, Debug, Default)]
pub struct RetryInfoHandle(Arc<Mutex<Option<Arc<CallState>>>>);

impl RetryInfoHandle {
    pub(super) fn see(&self, state: &Arc<CallState>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(state));
    }

    /// What happened in the call so far; empty before a layer has seen the request.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref()
            .map_or_else(RetryInfo::default, |state| state.info())
    }
}

impl RetryInfo {
    /// Makes the result of this request's call visible to the caller: read
    /// [`RetryInfoHandle::info`] after the call, whether it succeeded, failed, timed out or was
    /// dropped.
    pub fn track<R: HasCallContext + ?Sized>(request: &mut R) -> RetryInfoHandle {
        let handle = RetryInfoHandle::default();
        let context = request.context_mut();
        if let Some(state) = &context.state {
            handle.see(state);
        }
        context.own_mut().watch = Some(handle.clone());
        handle
    }
}
