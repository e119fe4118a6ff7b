use std::sync::Arc;

use crate::RetryThrottle;
use crate::call::ThrottleStamp;
use tower_layer::Layer;

use super::Throttle;
use crate::order::OutsideRecovery;

/// Attaches a throttle to each call. The caller's and the route policy's throttle override it.
#[derive(Clone, Debug)]
pub struct ThrottleLayer {
    stamp: ThrottleStamp,
    order: OutsideRecovery,
}

impl ThrottleLayer {
    /// Attaches this throttle.
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
