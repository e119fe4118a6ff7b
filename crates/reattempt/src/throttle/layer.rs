use std::sync::Arc;

use crate::{RetryThrottle, StackCheck};
use tower_layer::Layer;

use super::Throttle;

/// Attaches a throttle to each call. The caller's and the route policy's throttle override it.
#[derive(Clone, Debug)]
pub struct ThrottleLayer {
    throttle: Option<Arc<dyn RetryThrottle>>,
    order: StackCheck,
}

impl ThrottleLayer {
    /// Attaches this throttle.
    #[must_use]
    pub fn new(throttle: Arc<dyn RetryThrottle>) -> Self {
        Self {
            throttle: Some(throttle),
            order: StackCheck::default(),
        }
    }

    /// Without a throttle of its own: only the policy's and the caller's apply.
    #[must_use]
    pub fn by_policy() -> Self {
        Self {
            throttle: None,
            order: StackCheck::default(),
        }
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Throttle {
            inner,
            throttle: self.throttle.clone(),
            order: self.order.clone(),
        }
    }
}
