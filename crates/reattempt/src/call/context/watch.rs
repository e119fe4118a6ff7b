//! A caller's view of its call.

use std::sync::{Arc, Mutex, PoisonError};

#[cfg(doc)]
use crate::CallContext;
use crate::RetryInfo;
use crate::call::block::CallBlock;

/// Shows a caller what happened in its call. Made by [`CallContext::watch`].
///
/// If the request is cloned and sent several times, it shows the call that began last.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Option<Arc<CallBlock>>>>);

impl Watch {
    pub(super) fn see(&self, block: &Arc<CallBlock>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(block));
    }

    /// What happened in the call so far; empty before a layer has seen the request.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref()
            .map_or_else(RetryInfo::default, |block| block.info())
    }
}
