//! `DeadlineLayer`: stamps the time limit of a call and ends the call at it.
//!
//! Above the recovery layer it bounds the whole call; below it, each attempt: it is the only per-attempt timeout. An
//! answer at the very instant of the deadline wins. What the caller then gets is made by an
//! [`OnElapsed`]: by default an error from [`Elapsed`], which tells attempts, reasons, and whether the request may
//! have been carried out.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::{Call, DeadlineLayer, Elapsed};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::new(Duration::from_millis(50)))
//!     .service_fn(|_: Call<()>| async { std::future::pending::<Result<(), BoxError>>().await });
//! let error = service.oneshot(Call::new(())).await.unwrap_err();
//! let elapsed = error.downcast::<Elapsed>()?;
//! assert_eq!(elapsed.limit, Some(Duration::from_millis(50)));
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};
use std::time::Duration;

use reattempt_core::{Annotated, DeadlineScope, Elapsed, Idempotency, TimeLimit};
use tower_service::Service;

use crate::clock;
use future::Armed;
pub use future::DeadlineFuture;
pub use layer::DeadlineLayer;

/// Makes what a caller gets when the deadline has passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn an elapsed deadline into `Result<{Res}, {Err}>`",
    note = "`AsError` needs `{Err}: From<Elapsed>`; put `.map_err(BoxError::from)` between DeadlineLayer and RetryLayer"
)]
pub trait OnElapsed<Res, Err> {
    /// The outcome in place of the one that did not come.
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err>;
}

/// An error made from [`Elapsed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AsError;

impl<Res, Err: From<Elapsed>> OnElapsed<Res, Err> for AsError {
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err> {
        Err(Err::from(elapsed))
    }
}

/// Ends calls (or attempts) at their time limit. Made by [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct Deadline<S, M = AsError> {
    inner: S,
    timeout: Option<Duration>,
    on_elapsed: M,
}

impl<S, M, Req> Service<Req> for Deadline<S, M>
where
    S: Service<Req>,
    M: OnElapsed<S::Response, S::Error> + Clone,
    Req: Annotated,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future, M>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let context = request.context_mut();
        let scope = if context.is_claimed() {
            DeadlineScope::Attempt
        } else {
            DeadlineScope::Call
        };
        let of_policy = context.policy().and_then(|policy| match scope {
            DeadlineScope::Call => policy.get_call_limit(),
            DeadlineScope::Attempt => policy.get_attempt_limit(),
        });
        let timeout = match (self.timeout, of_policy) {
            (Some(own), Some(policy)) => Some(own.min(policy)),
            (own, policy) => own.or(policy),
        };
        let own = timeout.map(|timeout| clock::after(clock::now(), timeout));
        let stamped = context.limit();
        let limit = match (own, stamped) {
            // Enforced further out already, and earlier: nothing to do here.
            (own, Some(outer)) if outer.enforced && own.is_none_or(|own| own >= outer.at) => None,
            (Some(own), outer) => Some(TimeLimit::enforced(own).earlier(outer)),
            (None, outer) => outer,
        };
        let Some(limit) = limit else {
            return DeadlineFuture::new(self.inner.call(request), None, self.on_elapsed.clone());
        };
        context.stamp_limit(TimeLimit::enforced(limit.at));
        let idempotency = match context.idempotency() {
            Idempotency::Unknown => natural,
            said => said,
        };
        let armed = Armed {
            at: limit.at,
            scope,
            limit: timeout.filter(|_| own == Some(limit.at)),
            idempotent: idempotency.is_idempotent(),
            handle: context.begin(),
        };
        DeadlineFuture::new(
            self.inner.call(request),
            Some(armed),
            self.on_elapsed.clone(),
        )
    }
}
