//! `PreviousAttemptsLayer` over a `PushbackLayer`, with one look at the head of the response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use reattempt::{AttemptReporter, CallContext};
use tower_layer::Layer;
use tower_service::Service;

use crate::previous_attempts::{NAME, PREVIOUS_ATTEMPTS};
use crate::{GrpcPushback, PreviousAttempts, PreviousAttemptsLayer};

/// Sets the headers of each attempt, and reads pushback.
#[derive(Clone, Debug)]
pub struct AttemptHead<S>(PreviousAttempts<S>);

impl<S> AttemptHead<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self(PreviousAttemptsLayer.layer(inner))
    }
}

impl<S, B, ResBody> Service<Request<B>> for AttemptHead<S>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = AttemptHeadFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (previous, reporter) = self.0.prepare(&mut request, CallContext::reporter);
        AttemptHeadFuture {
            inner: self.0.inner.call(request),
            previous,
            reporter,
        }
    }
}

pin_project! {
    /// The future of [`AttemptHead`].
    #[derive(Debug)]
    pub struct AttemptHeadFuture<F> {
        #[pin]
        inner: F,
        previous: u32,
        reporter: Option<AttemptReporter>,
    }
}

impl<F, B, E> Future for AttemptHeadFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = ready!(this.inner.poll(cx));
        if let Ok(response) = &mut outcome {
            let headers = response.headers_mut();
            let mut has_count = false;
            let pushback = GrpcPushback::of_head(headers, |name| has_count |= *name == NAME);
            if let (Some(pushback), Some(reporter)) = (pushback, this.reporter.take()) {
                reporter.pushback(pushback);
            }
            // The count is this client's own; a value from the server is removed.
            if *this.previous > 0 {
                headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(*this.previous));
            } else if has_count {
                headers.remove(&NAME);
            }
        }
        Poll::Ready(outcome)
    }
}
