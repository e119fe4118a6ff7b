//! `PreviousAttemptsLayer`: sends the number of earlier attempts to the server and the caller (A6,
//! Exposed Retry Metadata).
//!
//! Place it directly below the recovery layer and
//! [`WaitForReadyLayer`](crate::WaitForReadyLayer). On each attempt it sets
//! `grpc-previous-rpc-attempts` to the number of earlier attempts, not counting transparent ones,
//! and omits it on the first. A transparent one leaves out the attempt that it replaces, and counts
//! hedges that were sent since. A value set by the user is removed. If the call has a timeout,
//! `grpc-timeout` becomes the time left, unless the caller's own is shorter. The response head gets
//! the count too.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_grpc::{GrpcClassifier, PreviousAttemptsLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
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
use reattempt::{CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

use crate::metadata::{first_of_two, remove};
use crate::timeout::{GRPC_TIMEOUT, parse, renew};

/// The header that carries the number of earlier attempts.
pub const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

// A reference to a constant makes a value of it each time.
pub(crate) static NAME: HeaderName = PREVIOUS_ATTEMPTS;
static TIMEOUT: HeaderName = GRPC_TIMEOUT;

/// Sets `grpc-previous-rpc-attempts` and `grpc-timeout` of each attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousAttemptsLayer;

impl<S> Layer<S> for PreviousAttemptsLayer {
    type Service = PreviousAttempts<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PreviousAttempts {
            inner,
            order: StackCheck::default(),
        }
    }
}

/// The service that [`PreviousAttemptsLayer`] creates.
#[derive(Clone, Debug)]
pub struct PreviousAttempts<S> {
    pub(crate) inner: S,
    order: StackCheck,
}

/// The number of attempts before one that waits for a connection, from when it began to wait:
/// others may be sent meanwhile, and which of them are transparent is known only at their end.
#[derive(Clone, Copy, Debug)]
struct Waiting(u32);

/// An attempt begins to wait for a connection.
pub(crate) fn note_waiting<B>(request: &mut Request<B>) {
    let context = request.context().filter(|context| context.attempt() > 1);
    if let Some(previous) = context.map(before) {
        request.extensions_mut().insert(Waiting(previous));
    }
}

/// The number of earlier attempts, not counting transparent ones. `context`: of the request.
pub(crate) fn previous_attempts<B>(request: &Request<B>, context: Option<&CallContext>) -> u32 {
    // Avoids the lock on the first attempt of a call.
    let Some(context) = context.filter(|context| context.attempt() > 1) else {
        return 0;
    };
    match request.extensions().get() {
        Some(Waiting(previous)) => *previous,
        None => before(context),
    }
}

fn before(context: &CallContext) -> u32 {
    let info = context.info();
    // Other attempts may have been sent since, while a layer in between kept this one.
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
        let (previous, _) = self.prepare(&mut request, |_| ());
        PreviousAttemptsFuture {
            inner: self.inner.call(request),
            previous,
        }
    }
}

impl<S> PreviousAttempts<S> {
    /// Sets the headers of an attempt. Returns the number of earlier attempts, and what is made of
    /// the context, which is looked up once.
    #[inline]
    pub(crate) fn prepare<B, T>(
        &self,
        request: &mut Request<B>,
        of_context: impl FnOnce(&CallContext) -> T,
    ) -> (u32, Option<T>) {
        let context = request.context();
        self.order.of_each_attempt("PreviousAttemptsLayer", context);
        let previous = previous_attempts(request, context);
        let deadline = context.and_then(CallContext::deadline);
        let made = context.map(of_context);
        let headers = request.headers_mut();
        // In one pass: few requests have either.
        let (of_user, timeout) = first_of_two(headers, &NAME, &TIMEOUT);
        let (is_set, timeout) = (of_user.is_some(), timeout.and_then(parse));
        if previous > 0 {
            headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(previous));
        } else if is_set {
            headers.remove(PREVIOUS_ATTEMPTS);
        }
        if let Some(deadline) = deadline {
            renew(headers, deadline, timeout);
        }
        (previous, made)
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
            // The count is this client's own; a value from the server is removed.
            let headers = response.headers_mut();
            if *this.previous == 0 {
                remove(headers, &NAME);
            } else {
                headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(*this.previous));
            }
        }
        Poll::Ready(outcome)
    }
}
