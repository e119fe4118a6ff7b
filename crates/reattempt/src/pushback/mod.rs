//! `PushbackLayer`: reads server pushback from the response (A6, Pushback).
//!
//! Put it inside the recovery layer, close to the transport. It only reports: the recovery layer
//! waits exactly as long as the server asked, or stops. Under a strategy without a maximum of
//! attempts it waits for the strategy's own delay if that is longer, unless the strategy's
//! [`delay_asked`](crate::RetryStrategy::delay_asked) says otherwise.
//!
//! A call without a deadline waits up to a day if a server asks for it (more than a day means
//! stop): put a [`DeadlineLayer`](crate::DeadlineLayer) outside of the recovery layer, or a cap
//! into the reader.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::pushback::PushbackLayer;
//! use reattempt::{Call, CallContext, ServerPushback};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! // Any closure over the outcome can read it; protocol crates provide their own readers.
//! let service = ServiceBuilder::new()
//!     .layer(PushbackLayer::new(|outcome: Result<&u32, &std::convert::Infallible>| {
//!         let busy_for = *outcome.ok()?;
//!         (busy_for > 0).then(|| ServerPushback::After(Duration::from_millis(busy_for.into())))
//!     }))
//!     .service_fn(|_: Call<()>| async { Ok(250) });
//! assert_eq!(service.oneshot(Call::new(())).await?, 250);
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use crate::{CallContext, HasCallContext, ReadPushback, StackCheck};
use tower_service::Service;

pub use future::PushbackFuture;
pub use layer::PushbackLayer;

/// Reports the server pushback of every response. Made by [`PushbackLayer`].
#[derive(Clone, Debug)]
pub struct Pushback<S, R> {
    inner: S,
    reader: R,
    order: StackCheck,
}

impl<S, R, Req> Service<Req> for Pushback<S, R>
where
    S: Service<Req>,
    R: ReadPushback<S::Response, S::Error> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = PushbackFuture<S::Future, R>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    // 8 % of the row `stack`.
    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("PushbackLayer", context);
        let context = context.map(CallContext::share);
        PushbackFuture::new(self.inner.call(request), self.reader.clone(), context)
    }
}
