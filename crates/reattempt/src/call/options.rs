//! What the caller and the layers attached to a call.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::call::context::Watch;
use crate::{RetryStrategy, RetryThrottle, RoutePolicy};

/// The options of a call. [`Marks`](crate::call::marks::Marks) say which of them are the call's: a
/// reused state still holds the policy and the throttle of an earlier call, which the next call
/// most likely attaches again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The route's policy.
    pub(crate) policy: Option<Arc<RoutePolicy>>,
    /// The layer's throttle.
    pub(crate) throttle: Option<Arc<dyn RetryThrottle>>,
    /// The caller's options; few calls have any.
    pub(crate) caller: Option<Box<CallerOptions>>,
}

/// What the caller set for one call, and user data.
#[derive(Clone, Default)]
pub(crate) struct CallerOptions {
    pub(crate) strategy: Option<Arc<dyn RetryStrategy>>,
    pub(crate) throttle: Option<Arc<dyn RetryThrottle>>,
    pub(crate) policy: Option<Arc<RoutePolicy>>,
    pub(crate) watch: Option<Watch>,
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
