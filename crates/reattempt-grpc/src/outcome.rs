//! `GrpcOutcomeLayer`: counts a call by the status in its trailers.
//!
//! Once a server has sent response headers the call is committed, and how it ended is known only from the trailers. Put this
//! layer below the recovery layer: at the end of the answer it tells the throttle a success for OK, a failure for a
//! retryable code or a stream that broke off with one, and nothing for any other code (A6, Throttling). A
//! caller who drops the stream early counts as neither.
//!
//! ```
//! use std::sync::Arc;
//! use http::{HeaderMap, Request, Response};
//! use http_body_util::{BodyExt, Empty};
//! use reattempt::strategy::Once;
//! use reattempt::{RetryLayer, RetryThrottle, ThrottleLayer, TokenBucket};
//! use reattempt_grpc::{GrpcClassifier, GrpcOutcomeLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(10, 100)?);
//! let service = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(Arc::clone(&bucket)))
//!     .layer(RetryLayer::new(GrpcClassifier::new(), Once))
//!     .layer(GrpcOutcomeLayer::new())
//!     .service_fn(|_: Request<()>| async {
//!         let mut trailers = HeaderMap::new();
//!         trailers.insert("grpc-status", 14.into());
//!         let body = Empty::<Bytes>::new().with_trailers(std::future::ready(Some(Ok(trailers))));
//!         Ok::<_, BoxError>(Response::new(body))
//!     });
//! let answer = service.oneshot(Request::new(())).await?;
//! assert_eq!(bucket.milli_tokens(), Some(10_000), "the head says nothing yet");
//! answer.into_body().collect().await?;
//! assert_eq!(bucket.milli_tokens(), Some(9_000));
//! # Ok(()) }
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::{Annotated, Conclusion, Stage};
use reattempt_http::TransportError;
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::{failure_of, failure_of_fault};
use crate::{Code, CodeSet, GRPC_STATUS, GrpcCodes};

/// Reports how gRPC answers end.
#[derive(Clone, Copy, Debug)]
pub struct GrpcOutcomeLayer {
    retryable: CodeSet,
}

impl GrpcOutcomeLayer {
    /// Where the call's policy names no codes, UNAVAILABLE counts as a failure.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: CodeSet::EMPTY.with(Code::Unavailable),
        }
    }

    /// Where the call's policy names no codes, these count as failures: the same as the classifier's.
    #[must_use]
    pub const fn retryable(mut self, codes: CodeSet) -> Self {
        self.retryable = codes;
        self
    }
}

impl Default for GrpcOutcomeLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for GrpcOutcomeLayer {
    type Service = GrpcOutcome<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcOutcome {
            inner,
            retryable: self.retryable,
        }
    }
}

/// Made by [`GrpcOutcomeLayer`].
#[derive(Clone, Debug)]
pub struct GrpcOutcome<S> {
    inner: S,
    retryable: CodeSet,
}

impl<S, Req, B> Service<Req> for GrpcOutcome<S>
where
    S: Service<Req, Response = Response<B>>,
    Req: Annotated,
{
    type Response = Response<GrpcOutcomeBody<B>>;
    type Error = S::Error;
    type Future = GrpcOutcomeFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let open = request.context().map(|context| Open {
            conclusion: context.conclusion(),
            retryable: GrpcCodes::of(context, self.retryable),
        });
        GrpcOutcomeFuture {
            inner: self.inner.call(request),
            open,
        }
    }
}

/// What is still to be told.
#[derive(Debug)]
struct Open {
    conclusion: Conclusion,
    retryable: CodeSet,
}

impl Open {
    fn ended(&self, code: Code) {
        if code == Code::Ok {
            self.conclusion.conclude(Ok(()));
        } else {
            let failure = failure_of(code, Stage::Response);
            self.conclusion
                .conclude(Err((&failure, self.retryable.contains(code))));
        }
    }
}

pin_project! {
    /// The future of [`GrpcOutcome`].
    #[derive(Debug)]
    pub struct GrpcOutcomeFuture<F> {
        #[pin]
        inner: F,
        open: Option<Open>,
    }
}

impl<F, B, E> Future for GrpcOutcomeFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<GrpcOutcomeBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let open = this.open.take();
        Poll::Ready(outcome.map(|response| response.map(|inner| GrpcOutcomeBody { inner, open })))
    }
}

pin_project! {
    /// An answer's stream whose status is reported.
    pub struct GrpcOutcomeBody<B> {
        #[pin]
        inner: B,
        open: Option<Open>,
    }
}

impl<B: Default> Default for GrpcOutcomeBody<B> {
    fn default() -> Self {
        Self {
            inner: B::default(),
            open: None,
        }
    }
}

impl<B> fmt::Debug for GrpcOutcomeBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcOutcomeBody")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl<B> Body for GrpcOutcomeBody<B>
where
    B: Body,
    B::Error: TransportError,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = ready!(this.inner.poll_frame(cx));
        match &polled {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    if let Some(open) = this.open.take() {
                        let status = trailers.get(GRPC_STATUS);
                        open.ended(status.map_or(Code::Unknown, Code::from_header));
                    }
                }
            }
            Some(Err(error)) => {
                if let Some(open) = this.open.take() {
                    open.ended(failure_of_fault(error.fault()).0);
                }
            }
            // A stream that ends without a status broke gRPC's own rules.
            None => {
                if let Some(open) = this.open.take() {
                    open.ended(Code::Internal);
                }
            }
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
