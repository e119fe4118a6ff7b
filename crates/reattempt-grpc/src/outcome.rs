//! `GrpcOutcomeLayer`: counts a call by the status in its trailers.
//!
//! A call is committed once response headers arrive, and its status comes in the trailers. Place
//! this layer below the recovery layer. At the end of the response it reports to the throttle a
//! success for OK, a failure for a retryable code or a stream error with such a code, and nothing
//! for any other code (A6, Throttling). A stream that the caller drops early counts as neither, and
//! so does a request that failed by itself, because the source of its own stream did. Admission,
//! circuit breakers and the health of backends learn of the same end.
//!
//! ```
//! use std::sync::Arc;
//! use http::{HeaderMap, Request, Response};
//! use http_body_util::{BodyExt, Empty};
//! use reattempt::strategy::RetryOnce;
//! use reattempt::{RetryLayer, RetryThrottle, ThrottleLayer, TokenBucket};
//! use reattempt_grpc::{GrpcClassifier, GrpcOutcomeLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(10, 100)?);
//! let service = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(Arc::clone(&bucket)))
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
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

use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use reattempt::{
    AttemptReporter, Failure, HasCallContext, RetryReason, StackCheck, Stage, Verdict,
};
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::failure_of;
use crate::error_code::NotAsked;
use crate::follow::{Follow, FollowedBody, FollowedFuture};
use crate::{ByKnownError, Code, CodeSet, ErrorCodes, MethodPolicy};

/// Reports the status of gRPC responses to the throttle.
#[derive(Clone, Copy, Debug)]
pub struct GrpcOutcomeLayer<R = ByKnownError> {
    retryable: CodeSet,
    body_error: R,
}

impl GrpcOutcomeLayer {
    /// UNAVAILABLE counts as a failure for calls without a service config.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: CodeSet::EMPTY.with(Code::Unavailable),
            body_error: ByKnownError,
        }
    }
}

impl<R> GrpcOutcomeLayer<R> {
    /// Sets how the error of a failed stream is mapped to a code; by default [`ByKnownError`].
    #[must_use]
    pub fn body_error<N>(self, body_error: N) -> GrpcOutcomeLayer<N> {
        GrpcOutcomeLayer {
            retryable: self.retryable,
            body_error,
        }
    }

    /// Sets the codes that count as failures for calls without a service config. Use the same set
    /// as for the classifier.
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
            order: StackCheck::default(),
        }
    }
}

/// The service that [`GrpcOutcomeLayer`] creates.
#[derive(Clone, Debug)]
pub struct GrpcOutcome<S, R = ByKnownError> {
    inner: S,
    retryable: CodeSet,
    body_error: R,
    order: StackCheck,
}

impl<S, R, Req, B> Service<Req> for GrpcOutcome<S, R>
where
    S: Service<Req, Response = Response<B>>,
    R: Clone,
    Req: HasCallContext,
    B: Body,
{
    type Response = Response<GrpcOutcomeBody<B, R>>;
    type Error = S::Error;
    type Future = GrpcOutcomeFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("GrpcOutcomeLayer", context);
        let open = context.map(|context| Open {
            reporter: context.reporter().follow(),
            retryable: MethodPolicy::codes(context, self.retryable),
        });
        let inner = self.inner.call(request);
        let errors = ErrorCodes::new().call(NotAsked);
        FollowedFuture::new(inner, open, errors.body(self.body_error.clone()))
    }
}

/// The future of [`GrpcOutcome`].
pub type GrpcOutcomeFuture<F, R> = FollowedFuture<F, Open, NotAsked, R>;

/// A response stream whose status is reported.
pub type GrpcOutcomeBody<B, R = ByKnownError> = FollowedBody<B, Open, R>;

/// A call whose status has not been reported yet.
#[derive(Debug)]
pub struct Open {
    reporter: AttemptReporter,
    retryable: CodeSet,
}

impl Follow for Open {
    fn closed(self, code: Code) {
        // The recovery layer classifies the head. Without one, what waits for the end of the
        // response learns it here.
        if self.reporter.attempt() == 0 {
            self.ended(code);
        }
    }

    fn ended(self, code: Code) {
        let failure = failure_of(code, Stage::Response);
        self.reporter.finish(&match code {
            Code::Ok => Verdict::Success,
            _ if self.retryable.contains(code) => Verdict::Retry(failure),
            _ => Verdict::Fatal(failure),
        });
    }

    fn request_failed(self, code: Code, reason: RetryReason) {
        let failure = Failure::new(reason, Stage::InFlight).code(code.number());
        self.reporter.finish(&Verdict::Fatal(failure));
    }
}
