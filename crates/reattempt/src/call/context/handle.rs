//! A handle to a call's state that outlives the request.

use std::sync::Arc;

use crate::call::attempts::AttemptKey;
use crate::call::pool;
use crate::call::state::CallState;
use crate::{RetryInfo, StopReason};

/// For layers: a handle to a call's state that outlives the request.
#[derive(Clone, Debug)]
pub struct CallHandle(pub(super) Option<Arc<CallState>>, pub(super) AttemptKey);

impl CallHandle {
    /// The call succeeded: if no recovery layer acted on it (which would do this itself), its state
    /// may be reused by another call.
    #[inline(always)]
    pub fn retire(self) {
        if let Some(state) = self.0 {
            if !state.is_claimed() && !state.is_logged() {
                pool::keep(state);
            }
        }
    }

    /// True once a recovery layer acts on the call.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.is_claimed())
    }

    /// True if an attempt is in flight that may have left the client. Assumed to be true if no
    /// recovery layer counts attempts.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.0.as_ref().is_none_or(|state| state.in_flight())
    }

    /// The response of the current attempt is the layer's own: see
    /// [`AttemptReporter::own_answer`](crate::AttemptReporter::own_answer).
    pub fn own_answer(&self) {
        if let Some(state) = self.0.as_ref() {
            state.slots.own_answer(self.1);
        }
    }

    /// Stores why the call ended.
    pub fn stop(&self, stopped: StopReason) {
        if let Some(state) = self.0.as_ref() {
            state.stop(stopped);
        }
    }

    /// What happened in the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.0
            .as_ref()
            .map_or_else(RetryInfo::default, |state| state.info())
    }
}
