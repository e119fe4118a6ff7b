//! `ThrottleLayer`: attaches the token bucket of this server to its calls (A6, Throttling).
//!
//! Put it above the recovery layer, which asks the throttle before each further attempt and reports
//! every settled one. It only attaches: its future is the inner future itself. One bucket belongs
//! to one server name; clone the `Arc` to share it.
//!
//! It costs least above `DeadlineLayer`. Below it, a thread that uses stacks with different
//! throttles in turn allocates once a call.
//!
//! ```
//! use std::sync::Arc;
//! use reattempt::{Call, RetryThrottle, ThrottleLayer, TokenBucket};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let bucket = Arc::new(TokenBucket::new(10, 100)?); // maxTokens 10, tokenRatio 0.1
//! let service = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(bucket.clone()))
//!     // … RetryLayer or HedgeLayer here …
//!     .service_fn(|_: Call<()>| async { Ok::<_, std::convert::Infallible>("ok") });
//! assert_eq!(service.oneshot(Call::new(())).await?, "ok");
//! assert!(bucket.allows(None));
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{HasCallContext, StackCheck};
use tower_service::Service;

#[doc(no_inline)]
pub use crate::policy::throttle::*;
pub use layer::ThrottleLayer;

/// Attaches a throttle to each call. Made by [`ThrottleLayer`].
#[derive(Clone, Debug)]
pub struct Throttle<S> {
    inner: S,
    throttle: Option<Arc<dyn crate::RetryThrottle>>,
    order: StackCheck,
}

impl<S, Req> Service<Req> for Throttle<S>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        if let Some(throttle) = &self.throttle {
            let context = request.context_mut();
            self.order.outside_recovery("ThrottleLayer", context);
            context.attach_throttle(throttle);
        }
        self.inner.call(request)
    }
}
