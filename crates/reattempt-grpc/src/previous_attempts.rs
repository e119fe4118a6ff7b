//! `PreviousAttemptsLayer`: tells server and caller how many attempts came before (A6, Exposed
//! Retry Metadata).
//!
//! Put it right below the recovery layer. On each attempt it sets `grpc-previous-rpc-attempts` to
//! the number of attempts before it, transparent ones not counted, and leaves it out on the first;
//! a user's own value never passes. If the call has a time limit, `grpc-timeout` becomes the time
//! left, unless the caller's own is shorter. The answer's head gets the count too.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::Once;
//! use reattempt_grpc::{GrpcClassifier, PreviousAttemptsLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(GrpcClassifier::new(), Once))
//!     .layer(PreviousAttemptsLayer)
//!     .service_fn(|request: Request<()>| async move {
//!         let mut response = Response::new(());
//!         let first = request.headers().get("grpc-previous-rpc-attempts").is_none();
//!         response.headers_mut().insert("grpc-status", if first { 14 } else { 0 }.into());
//!         Ok::<_, std::convert::Infallible>(response)
//!     });
//! let answer = service.oneshot(Request::new(())).await?;
//! assert_eq!(answer.headers()["grpc-previous-rpc-attempts"], "1");
//! # Ok(()) }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use reattempt::order::OneWarning;
use reattempt::{Annotated, CallContext};
use tower_layer::Layer;
use tower_service::Service;

use crate::timeout::renew_timeout;

/// The header that carries the number of attempts before this one.
pub const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// Sets `grpc-previous-rpc-attempts` and `grpc-timeout` of each attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousAttemptsLayer;

impl<S> Layer<S> for PreviousAttemptsLayer {
    type Service = PreviousAttempts<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PreviousAttempts {
            inner,
            order: OneWarning::default(),
        }
    }
}

/// Made by [`PreviousAttemptsLayer`].
#[derive(Clone, Debug)]
pub struct PreviousAttempts<S> {
    inner: S,
    order: OneWarning,
}

/// Attempts before this one, without transparent ones.
pub(crate) fn previous_attempts(context: &CallContext) -> u32 {
    // The first attempt of a call asks for nothing that takes a lock.
    if context.attempt() <= 1 {
        return 0;
    }
    let info = context.info();
    // Others may have been sent since, where this one had to wait for a connection.
    let since = info.attempts().saturating_sub(context.attempt());
    info.retries().saturating_sub(since)
}

impl<S, B, ResBody> Service<Request<B>> for PreviousAttempts<S>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = PreviousAttemptsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !request.context().is_some_and(CallContext::is_claimed) {
            self.order.warn(
                "PreviousAttemptsLayer",
                "is outside of any recovery layer, so it sees no attempt but one: put it below RetryLayer or HedgeLayer",
            );
        }
        let previous = request.context().map_or(0, previous_attempts);
        if previous == 0 {
            request.headers_mut().remove(PREVIOUS_ATTEMPTS);
        } else {
            request
                .headers_mut()
                .insert(PREVIOUS_ATTEMPTS, HeaderValue::from(previous));
        }
        renew_timeout(&mut request);
        PreviousAttemptsFuture {
            inner: self.inner.call(request),
            previous,
        }
    }
}

pin_project! {
    /// The future of [`PreviousAttempts`].
    #[derive(Debug)]
    pub struct PreviousAttemptsFuture<F> {
        #[pin]
        inner: F,
        previous: u32,
    }
}

impl<F, B, E> Future for PreviousAttemptsFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = ready!(this.inner.poll(cx));
        if let Ok(response) = &mut outcome {
            // The count is this client's own; whatever the server says of it does not pass.
            let headers = response.headers_mut();
            if *this.previous == 0 {
                headers.remove(PREVIOUS_ATTEMPTS);
            } else {
                headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(*this.previous));
            }
        }
        Poll::Ready(outcome)
    }
}
