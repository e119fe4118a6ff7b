//! `DeadlineBodyLayer`: bounds the response body by the call's deadline.
//!
//! A `DeadlineLayer` ends a call without a response in time; once the head has arrived it is done,
//! and the body could continue forever. This layer applies the deadline to the body. Put it
//! directly below the `DeadlineLayer`. It changes the response type: `Response<B>` becomes
//! `Response<DeadlineBody<B>>`.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
//! use reattempt::DeadlineLayer;
//! use reattempt_http::body::{DeadlineBodyError, DeadlineBodyLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # struct Hangs;
//! # impl http_body::Body for Hangs {
//! #     type Data = Bytes; type Error = Infallible;
//! #     fn poll_frame(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>)
//! #         -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>>
//! #     { std::task::Poll::Pending }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::new(Duration::from_secs(1)))
//!     .layer(DeadlineBodyLayer::new())
//!     .service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new(Hangs)) });
//! let answer = service.oneshot(Request::new(())).await?;
//! let error = answer.into_body().collect().await.err().expect("it hangs");
//! assert!(matches!(error, DeadlineBodyError::Elapsed(_)));
//! # Ok(()) }
//! ```

mod bounded;
mod limit;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use reattempt::{CallContext, DeadlineScope, HasCallContext, Idempotency, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

pub use bounded::{AsBodyError, DeadlineBody, DeadlineBodyError, OnBodyElapsed};
use limit::{BodyLimit, Limit, Pending};

/// Bounds response bodies by the call's deadline, or by a timeout of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineBodyLayer<M = AsBodyError> {
    limit: BodyLimit,
    on_elapsed: M,
}

impl DeadlineBodyLayer {
    /// Ends a body at the deadline with [`DeadlineBodyError::Elapsed`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limit: BodyLimit::Call,
            on_elapsed: AsBodyError,
        }
    }

    /// Ends a body this time after its head, whatever the call's deadline is; `None` is unlimited.
    /// The limit of the call's route
    /// ([`HttpRoute::body_timeout`](crate::HttpRoute::body_timeout)) takes precedence, also over
    /// the call's deadline.
    #[must_use]
    pub const fn after_head(timeout: Option<Duration>) -> Self {
        Self {
            limit: BodyLimit::AfterHead(timeout),
            on_elapsed: AsBodyError,
        }
    }
}

impl<M> DeadlineBodyLayer<M> {
    /// Ends it differently (reattempt-grpc's `AsGrpcStatus`: with trailers).
    #[must_use]
    pub fn on_elapsed<N>(self, on_elapsed: N) -> DeadlineBodyLayer<N> {
        DeadlineBodyLayer {
            limit: self.limit,
            on_elapsed,
        }
    }
}

impl<S, M: Clone> Layer<S> for DeadlineBodyLayer<M> {
    type Service = DeadlineBodyService<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineBodyService {
            inner,
            limit: self.limit,
            on_elapsed: self.on_elapsed.clone(),
            order: StackCheck::default(),
        }
    }
}

/// Created by [`DeadlineBodyLayer`].
#[derive(Clone, Debug)]
pub struct DeadlineBodyService<S, M = AsBodyError> {
    inner: S,
    limit: BodyLimit,
    on_elapsed: M,
    order: StackCheck,
}

/// True for a call with a deadline that no `DeadlineLayer` above enforces.
fn is_above_deadline(context: &CallContext) -> bool {
    !context.is_claimed()
        && match context.deadline() {
            Some(limit) => !limit.enforced,
            None => context
                .policy()
                .is_some_and(|policy| policy.timeout().is_some()),
        }
}

impl<S, M, Req, B> Service<Req> for DeadlineBodyService<S, M>
where
    S: Service<Req, Response = Response<B>>,
    B: Body,
    M: OnBodyElapsed<B::Error> + Clone,
    Req: HasCallContext,
{
    type Response = Response<DeadlineBody<B, M>>;
    type Error = S::Error;
    type Future = DeadlineBodyFuture<S::Future, M>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let follows_call = matches!(self.limit, BodyLimit::Call);
        if follows_call && request.context().is_some_and(is_above_deadline) {
            self.order.warn(
                "DeadlineBodyLayer",
                "is not inside a DeadlineLayer, so it does not know its timeout: put it right below",
            );
        }
        let limit = Limit::of(self.limit, request.context());
        let pending = limit.map(|limit| {
            let context = request.context_mut();
            let idempotency = match context.idempotency() {
                Idempotency::Unknown => natural,
                said => said,
            };
            Pending {
                limit,
                scope: if context.is_claimed() {
                    DeadlineScope::Attempt
                } else {
                    DeadlineScope::Call
                },
                ambiguous: !idempotency.outlives_call(),
                handle: context.begin(),
            }
        });
        DeadlineBodyFuture {
            inner: self.inner.call(request),
            pending,
            on_elapsed: self.on_elapsed.clone(),
        }
    }
}

pin_project! {
    /// The future of [`DeadlineBodyService`].
    #[derive(Debug)]
    pub struct DeadlineBodyFuture<F, M> {
        #[pin]
        inner: F,
        pending: Option<Pending>,
        on_elapsed: M,
    }
}

impl<F, M, B, E> Future for DeadlineBodyFuture<F, M>
where
    F: Future<Output = Result<Response<B>, E>>,
    M: Clone,
{
    type Output = Result<Response<DeadlineBody<B, M>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let armed = this.pending.take().map(Pending::head_has_arrived);
        let on_elapsed = this.on_elapsed.clone();
        let wrap = |body| DeadlineBody::new(body, armed, on_elapsed);
        Poll::Ready(outcome.map(|response| response.map(wrap)))
    }
}
