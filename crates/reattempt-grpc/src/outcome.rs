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
use reattempt::order::{InsideRecovery, OpenAnswers};
use reattempt::{Annotated, Conclusion, Reporter, Stage};
use reattempt_http::{TransportError, TransportFault};
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::{failure_of, failure_of_fault};
use crate::{Code, CodeSet, GRPC_STATUS, MethodPolicy};

/// Says which code an error of the answer's stream stands for. Closures `Fn(&E) -> Code` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` finds no status code in `{E}`",
    note = "name the code with `GrpcOutcomeLayer::new().body_error(|error: &{E}| …)`; for tonic: `|status: &tonic::Status| Code::from(status.code() as i32)`"
)]
pub trait BodyErrorCode<E> {
    /// The code.
    fn code(&self, error: &E) -> Code;
}

#[diagnostic::do_not_recommend]
impl<F, E> BodyErrorCode<E> for F
where
    F: Fn(&E) -> Code,
{
    fn code(&self, error: &E) -> Code {
        self(error)
    }
}

/// Looks into errors of the types that reattempt-http knows, boxed or not; any other is UNKNOWN.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByKnownError;

impl<E: 'static> BodyErrorCode<E> for ByKnownError {
    fn code(&self, error: &E) -> Code {
        failure_of_fault(TransportFault::of_any(error)).0
    }
}

/// Goes by the [`TransportError`], for error types of your own.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByTransportError;

impl<E: TransportError> BodyErrorCode<E> for ByTransportError {
    fn code(&self, error: &E) -> Code {
        failure_of_fault(error.fault()).0
    }
}

/// Reports how gRPC answers end.
#[derive(Clone, Copy, Debug)]
pub struct GrpcOutcomeLayer<R = ByKnownError> {
    retryable: CodeSet,
    body_error: R,
}

impl GrpcOutcomeLayer {
    /// Where the call's policy names no codes, UNAVAILABLE counts as a failure.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: CodeSet::EMPTY.with(Code::Unavailable),
            body_error: ByKnownError,
        }
    }
}

impl<R> GrpcOutcomeLayer<R> {
    /// Finds the code of a stream that broke off in this way; by default [`ByKnownError`]. For tonic's bodies, whose
    /// error is a status, say `|status: &tonic::Status| Code::from(status.code() as i32)`.
    #[must_use]
    pub fn body_error<N>(self, body_error: N) -> GrpcOutcomeLayer<N> {
        GrpcOutcomeLayer {
            retryable: self.retryable,
            body_error,
        }
    }

    /// Where the call's policy names no codes, these count as failures: the same as the classifier's.
    #[must_use]
    pub fn retryable(mut self, codes: CodeSet) -> Self {
        self.retryable = codes;
        self
    }
}

impl Default for GrpcOutcomeLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, R: Clone> Layer<S> for GrpcOutcomeLayer<R> {
    type Service = GrpcOutcome<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcOutcome {
            inner,
            retryable: self.retryable,
            body_error: self.body_error.clone(),
            order: InsideRecovery::default(),
        }
    }
}

/// Made by [`GrpcOutcomeLayer`].
#[derive(Clone, Debug)]
pub struct GrpcOutcome<S, R = ByKnownError> {
    inner: S,
    retryable: CodeSet,
    body_error: R,
    order: InsideRecovery,
}

impl<S, R, Req, B> Service<Req> for GrpcOutcome<S, R>
where
    S: Service<Req, Response = Response<B>>,
    R: Clone,
    Req: Annotated,
{
    type Response = Response<GrpcOutcomeBody<B, R>>;
    type Error = S::Error;
    type Future = GrpcOutcomeFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.order.check("GrpcOutcomeLayer", request.context());
        let open = request.context().map(|context| Open {
            conclusion: context.conclusion(),
            reporter: context.reporter(),
            retryable: MethodPolicy::codes(context, self.retryable),
            body_error: self.body_error.clone(),
        });
        GrpcOutcomeFuture {
            inner: self.inner.call(request),
            open,
        }
    }
}

/// True of a head that the classifier commits to.
pub(crate) fn is_open<B>(response: &Response<B>) -> bool {
    response.status() == http::StatusCode::OK && !response.headers().contains_key(GRPC_STATUS)
}

/// What is still to be told.
struct Open<R> {
    conclusion: Conclusion,
    reporter: Reporter,
    retryable: CodeSet,
    body_error: R,
}

impl<R> Open<R> {
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
    pub struct GrpcOutcomeFuture<F, R> {
        #[pin]
        inner: F,
        open: Option<Open<R>>,
    }
}

impl<F, R> fmt::Debug for GrpcOutcomeFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcOutcomeFuture").finish_non_exhaustive()
    }
}

impl<F, R, B, E> Future for GrpcOutcomeFuture<F, R>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<GrpcOutcomeBody<B, R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let open = this.open.take();
        if let (Ok(response), Some(open)) = (&outcome, &open) {
            if is_open(response) {
                OpenAnswers::follow(&open.reporter);
            }
        }
        Poll::Ready(outcome.map(|response| response.map(|inner| GrpcOutcomeBody { inner, open })))
    }
}

pin_project! {
    /// An answer's stream whose status is reported.
    pub struct GrpcOutcomeBody<B, R = ByKnownError> {
        #[pin]
        inner: B,
        open: Option<Open<R>>,
    }
}

impl<B: Default, R> Default for GrpcOutcomeBody<B, R> {
    fn default() -> Self {
        Self {
            inner: B::default(),
            open: None,
        }
    }
}

impl<B, R> fmt::Debug for GrpcOutcomeBody<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcOutcomeBody")
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

impl<B, R> Body for GrpcOutcomeBody<B, R>
where
    B: Body,
    R: BodyErrorCode<B::Error>,
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
                    open.ended(open.body_error.code(error));
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
