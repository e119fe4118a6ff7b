use std::sync::Arc;

use reattempt_core::{RetryThrottle, ThrottleStamp};
use tower_layer::Layer;

use super::Throttle;
use crate::order::OutsideRecovery;

/// Stamps a throttle on each call. A throttle of the caller or of the route's policy beats it.
#[derive(Clone, Debug)]
pub struct ThrottleLayer {
    stamp: ThrottleStamp,
    order: OutsideRecovery,
}

impl ThrottleLayer {
    /// Stamps this throttle.
    #[must_use]
    pub fn new(throttle: Arc<dyn RetryThrottle>) -> Self {
        Self {
            stamp: ThrottleStamp::new(throttle),
            order: OutsideRecovery::default(),
        }
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Throttle {
            inner,
            stamp: self.stamp.clone(),
            order: self.order.clone(),
        }
    }
}
