//! `OutcomeBodyLayer`: a response counts as a success only once its body has ended without an
//! error.
//!
//! Put it below the recovery layer, whose classifier leaves successful heads undecided
//! ([`HttpClassifier::judge_bodies`](crate::HttpClassifier::judge_bodies)). At the body's end the
//! result is reported to the throttle: a success at a clean end, a failure ([`HTTP_BODY_FAILED`])
//! on an error. A caller that drops the body early counts as neither, and so does a request that
//! failed by itself, because the source of its own body did. It changes the response type:
//! `Response<B>` becomes `Response<OutcomeBody<B>>`.
//!
//! ```
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use reattempt::strategy::RetryOnce;
//! use reattempt::throttle::Settled;
//! use reattempt::{Failure, RetryLayer, RetryThrottle, Stage, ThrottleLayer, TokenBucket, reason};
//! use reattempt_http::HttpClassifier;
//! use reattempt_http::body::OutcomeBodyLayer;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(10, 500)?);
//! bucket.settled(Settled::Failure(&Failure::new(reason::UNKNOWN, Stage::Response)));
//! let service = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(Arc::clone(&bucket)))
//!     .layer(RetryLayer::new(HttpClassifier::new().judge_bodies(), RetryOnce))
//!     .layer(OutcomeBodyLayer::new())
//!     .service_fn(|_: Request<()>| async {
//!         Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("complete")))
//!     });
//! let answer = service.oneshot(Request::new(())).await?;
//! assert_eq!(bucket.milli_tokens(), Some(9_000), "no result is known yet");
//! answer.into_body().collect().await?;
//! assert_eq!(bucket.milli_tokens(), Some(9_500));
//! # Ok(()) }
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::reason::ReasonClass;
use reattempt::{AttemptReporter, Failure, HasCallContext, StackCheck, Stage, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::TransportFault;
use crate::reasons::HTTP_BODY_FAILED;

/// Reports how response bodies end.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutcomeBodyLayer(());

impl OutcomeBodyLayer {
    /// Creates the layer; it has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for OutcomeBodyLayer {
    type Service = OutcomeBodyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OutcomeBodyService {
            inner,
            order: StackCheck::default(),
        }
    }
}

/// Created by [`OutcomeBodyLayer`].
#[derive(Clone, Debug)]
pub struct OutcomeBodyService<S> {
    inner: S,
    order: StackCheck,
}

impl<S, Req, B> Service<Req> for OutcomeBodyService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body,
    Req: HasCallContext,
{
    type Response = Response<OutcomeBody<B>>;
    type Error = S::Error;
    type Future = OutcomeBodyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.order
            .inside_recovery("OutcomeBodyLayer", request.context());
        let open = request.context().map(|context| context.reporter().follow());
        OutcomeBodyFuture {
            inner: self.inner.call(request),
            open,
        }
    }
}

pin_project! {
    /// The future of [`OutcomeBodyService`].
    #[derive(Debug)]
    pub struct OutcomeBodyFuture<F> {
        #[pin]
        inner: F,
        open: Option<AttemptReporter>,
    }
}

impl<F, B, E> Future for OutcomeBodyFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<OutcomeBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let open = this.open.take();
        Poll::Ready(outcome.map(|response| {
            let status = response.status().as_u16();
            response.map(|inner| OutcomeBody {
                was_empty: inner.is_end_stream(),
                inner,
                open,
                status,
            })
        }))
    }
}

pin_project! {
    /// A response body whose end is reported.
    pub struct OutcomeBody<B> {
        #[pin]
        inner: B,
        open: Option<AttemptReporter>,
        status: u16,
        was_empty: bool,
    }

    impl<B> PinnedDrop for OutcomeBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A body that was empty from the start need not be polled.
            if *this.was_empty {
                if let Some(open) = this.open.take() {
                    open.finish(&Verdict::Success);
                }
            }
        }
    }
}

impl<B: Default> Default for OutcomeBody<B> {
    fn default() -> Self {
        Self {
            inner: B::default(),
            open: None,
            status: 200,
            was_empty: false,
        }
    }
}

impl<B> fmt::Debug for OutcomeBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeBody")
            .field("finished", &self.open.is_none())
            .finish_non_exhaustive()
    }
}

impl<B: Body> Body for OutcomeBody<B>
where
    B::Error: 'static,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = ready!(this.inner.as_mut().poll_frame(cx));
        match &polled {
            Some(Err(error)) => {
                if let Some(open) = this.open.take() {
                    let code = i32::from(*this.status);
                    let failure = Failure::new(HTTP_BODY_FAILED, Stage::Response).code(code);
                    open.finish(&match TransportFault::of_any(error).verdict() {
                        Verdict::Fatal(own) if own.class() == ReasonClass::Request => {
                            Verdict::Fatal(own.code(code))
                        }
                        _ => Verdict::Retry(failure),
                    });
                }
            }
            // A reader may stop at the last frame, without polling for the end.
            Some(Ok(_)) if !this.inner.is_end_stream() => {}
            Some(Ok(_)) | None => {
                if let Some(open) = this.open.take() {
                    open.finish(&Verdict::Success);
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
