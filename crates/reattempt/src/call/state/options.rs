//! What the caller and the layers attached to a call.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::CallState;
use crate::call::context::WeakInfoHandle;
use crate::{RetryStrategy, RetryThrottle, RoutePolicy};

/// The options of a call. [`AttemptBits`](crate::call::attempt_bits::AttemptBits) say which of them
/// are the call's: a reused state still holds the policy and the throttle of an earlier call, which
/// the next call most likely attaches again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The route's policy.
    pub(crate) policy: Option<Arc<RoutePolicy>>,
    /// The layer's throttle. A `DeadlineLayer` above has shared a new state by then, which is
    /// written all the same.
    pub(crate) throttle: OnceLock<Arc<dyn RetryThrottle>>,
    /// The caller's options; few calls have any.
    pub(crate) caller: Option<Box<CallerOptions>>,
}

/// What the caller set for one call, and user data.
#[derive(Clone, Default)]
pub(crate) struct CallerOptions {
    pub(crate) strategy: Option<Arc<dyn RetryStrategy>>,
    pub(crate) throttle: Option<Arc<dyn RetryThrottle>>,
    pub(crate) policy: Option<Arc<RoutePolicy>>,
    pub(crate) info_handle: Option<WeakInfoHandle>,
    /// One value per type.
    pub(crate) data: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for CallerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerOptions")
            .field("strategy", &self.strategy)
            .field("throttle", &self.throttle)
            .field("policy", &self.policy)
            .field("data", &self.data.len())
            .finish_non_exhaustive()
    }
}

impl CallState {
    /// The state of a call that has not begun. A call that the caller tracks has another one,
    /// without options.
    pub(crate) fn with(options: Options) -> Self {
        let caller = options.caller.as_ref();
        let is_tracked = caller.is_some_and(|own| own.info_handle.is_some());
        Self {
            of: is_tracked.then(Arc::default),
            options,
            ..Self::default()
        }
    }

    /// Other options for an attempt of this call.
    pub(crate) fn beside(call: Arc<Self>, options: Options) -> Self {
        Self {
            of: Some(call),
            options,
            ..Self::default()
        }
    }

    /// From now on these are only the options of that call.
    pub(crate) fn stand_beside(&mut self, call: Arc<Self>) {
        self.of = Some(call);
    }

    /// The same, as its own handle.
    pub(crate) fn shared_by(state: &Arc<Self>) -> Arc<Self> {
        Arc::clone(state.of.as_ref().unwrap_or(state))
    }

    /// These are no longer the options of an attempt. Returns its call.
    pub(crate) fn leave_call(&mut self) -> Option<Arc<Self>> {
        self.of.take()
    }
}
