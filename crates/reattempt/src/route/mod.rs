//! `RouteLayer`: attaches the policy of this route or method to the call.
//!
//! Put it outermost. It only attaches: its future is the inner future itself. The other layers read
//! the policy: recovery, throttle, timeouts, and data for the protocol's classifier.
//!
//! ```
//! use std::sync::Arc;
//! use reattempt::{HasCallContext, Call, RoutePolicy, RouteLayer};
//! use reattempt::strategy::RetryOnce;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let reads = Arc::new(RoutePolicy::new("reads").retry(RetryOnce));
//! let writes = Arc::new(RoutePolicy::new("writes").no_recovery());
//! let service = ServiceBuilder::new()
//!     .layer(RouteLayer::new(move |call: &Call<&'static str>| {
//!         Some(Arc::clone(if call.request == "get" { &reads } else { &writes }))
//!     }))
//!     .service_fn(|call: Call<&'static str>| async move {
//!         let policy = call.context().and_then(|context| context.policy());
//!         Ok::<_, std::convert::Infallible>(policy.map(|policy| policy.name().to_owned()))
//!     });
//! assert_eq!(service.oneshot(Call::new("get")).await?.as_deref(), Some("reads"));
//! # Ok(()) }
//! ```

mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use crate::{HasCallContext, Route, StackCheck};
use tower_service::Service;

pub use layer::RouteLayer;

/// Attaches the policy of each call. Made by [`RouteLayer`].
#[derive(Clone, Debug)]
pub struct Routed<S, R> {
    inner: S,
    routes: R,
    order: StackCheck,
    below_deadline: StackCheck,
}

impl<S, R, Req> Service<Req> for Routed<S, R>
where
    S: Service<Req>,
    R: Route<Req>,
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
        let Some(policy) = self.routes.route(&request) else {
            return self.inner.call(request);
        };
        let context = request.context_mut();
        self.order.outside_recovery("RouteLayer", context);
        if policy.timeout().is_some()
            && context.deadline().is_some_and(|deadline| deadline.enforced)
        {
            self.below_deadline.warn(
                "RouteLayer",
                "is below the DeadlineLayer, which cannot see the policy's time deadline: \
                 put it above DeadlineLayer",
            );
        }
        context.attach_policy(policy);
        self.inner.call(request)
    }
}
