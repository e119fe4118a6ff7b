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
//! #         -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> { std::task::Poll::Pending }
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

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::StackCheck;
use reattempt::{
    CallContext, CallHandle, DeadlineScope, Elapsed, HasCallContext, Idempotency, StopReason,
};
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::HttpRoute;

/// How a body ends at the deadline.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot end a body with the error `{E}` at its deadline"
)]
pub trait OnBodyElapsed<E> {
    /// The error of the wrapped body.
    type Error;
    /// The deadline has passed: trailers to end with, or an error.
    fn elapsed(&self, elapsed: Elapsed) -> Result<HeaderMap, Self::Error>;
    /// The body itself failed.
    fn failed(&self, error: E) -> Self::Error;

    /// True for an end (trailers, or an error) that is not the response's own, but may be caused by
    /// another timer for the same deadline: if the deadline has passed when it arrives, it is
    /// replaced by [`elapsed`](Self::elapsed). False by default.
    fn is_echo(&self, end: Result<&HeaderMap, &E>) -> bool {
        let _ = end;
        false
    }
}

/// Ends with [`DeadlineBodyError::Elapsed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AsBodyError;

impl<E> OnBodyElapsed<E> for AsBodyError {
    type Error = DeadlineBodyError<E>;

    fn elapsed(&self, elapsed: Elapsed) -> Result<HeaderMap, Self::Error> {
        Err(DeadlineBodyError::Elapsed(elapsed))
    }

    fn failed(&self, error: E) -> Self::Error {
        DeadlineBodyError::Body(error)
    }
}

/// Why a [`DeadlineBody`] failed. It is an [`Error`](std::error::Error) if the body's own error is
/// one, which a `Box<dyn Error>` is not.
#[derive(Debug, thiserror::Error)]
pub enum DeadlineBodyError<E> {
    /// The body itself failed.
    #[error("the response body failed")]
    Body(#[source] E),
    /// The deadline passed before the body's end. The server has received the request by then, so
    /// for a request that is not idempotent the timeout is always ambiguous.
    #[error(transparent)]
    Elapsed(Elapsed),
}

/// Bounds response bodies by the call's deadline, or by a time limit of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineBodyLayer<M = AsBodyError> {
    limit: BodyLimit,
    on_elapsed: M,
}

#[derive(Clone, Copy, Debug, Default)]
enum BodyLimit {
    /// The deadline of the call.
    #[default]
    Call,
    /// This time from the response head on; `None` is unlimited. The route's takes precedence.
    AfterHead(Option<Duration>),
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
    /// The limit of the call's route takes precedence ([`HttpRoute::body_timeout`]), also over the
    /// call's deadline.
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
        && match context.limit() {
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
                "is not inside a DeadlineLayer, so it does not know its time limit: put it right below",
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
                ambiguous: !idempotency.is_idempotent(),
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
        let wrap = |body| DeadlineBody {
            inner: Some(body),
            sleep: None,
            armed,
            on_elapsed,
        };
        Poll::Ready(outcome.map(|response| response.map(wrap)))
    }
}

/// When a body has to end.
#[derive(Clone, Copy, Debug)]
enum Limit {
    At(Instant),
    AfterHead(Duration),
}

impl Limit {
    fn of(layer: BodyLimit, context: Option<&CallContext>) -> Option<Self> {
        let of_route = context.and_then(HttpRoute::of);
        let of_route = of_route.and_then(HttpRoute::body_timeout);
        let own = match layer {
            BodyLimit::Call => None,
            BodyLimit::AfterHead(own) => own,
        };
        if let Some(timeout) = of_route.or(own) {
            return Some(Self::AfterHead(timeout));
        }
        match layer {
            BodyLimit::Call => context.and_then(|context| Some(Self::At(context.limit()?.at))),
            BodyLimit::AfterHead(_) => None,
        }
    }
}

/// What is known of the limit before the head has arrived.
#[derive(Debug)]
struct Pending {
    limit: Limit,
    scope: DeadlineScope,
    ambiguous: bool,
    handle: CallHandle,
}

impl Pending {
    fn head_has_arrived(self) -> Armed {
        const FAR: Duration = Duration::from_secs(1_000_000_000);
        let (at, limit) = match self.limit {
            // The usual case reads no clock.
            Limit::At(at) => (at, None),
            Limit::AfterHead(timeout) => {
                let now = tokio::time::Instant::now().into_std();
                let at = now.checked_add(timeout.min(FAR)).unwrap_or(now);
                (at, Some(timeout))
            }
        };
        Armed {
            at,
            limit,
            scope: self.scope,
            ambiguous: self.ambiguous,
            handle: self.handle,
        }
    }
}

#[derive(Debug)]
struct Armed {
    at: Instant,
    /// The time that was configured for the body.
    limit: Option<Duration>,
    scope: DeadlineScope,
    ambiguous: bool,
    handle: CallHandle,
}

impl Armed {
    fn elapsed(&self) -> Elapsed {
        if self.scope == DeadlineScope::Call {
            self.handle.stop(StopReason::Deadline);
        }
        Elapsed {
            scope: self.scope,
            limit: self.limit,
            ambiguous: self.ambiguous,
            info: Box::new(self.handle.info()),
        }
    }
}

pin_project! {
    /// A response body that ends at the call's deadline. The timer is armed only once the wrapped
    /// body is pending; at the deadline the wrapped body is dropped, which cancels its stream. Of
    /// the frames read after the deadline, only the last one is passed on.
    pub struct DeadlineBody<B, M = AsBodyError> {
        #[pin]
        inner: Option<B>,
        sleep: Option<Pin<Box<Sleep>>>,
        armed: Option<Armed>,
        on_elapsed: M,
    }
}

impl<B: Default, M: Default> Default for DeadlineBody<B, M> {
    fn default() -> Self {
        Self {
            inner: Some(B::default()),
            sleep: None,
            armed: None,
            on_elapsed: M::default(),
        }
    }
}

impl<B, M> fmt::Debug for DeadlineBody<B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineBody")
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}

impl<B, M> Body for DeadlineBody<B, M>
where
    B: Body,
    M: OnBodyElapsed<B::Error>,
{
    type Data = B::Data;
    type Error = M::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, M::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        // The frame first: at the exact instant of the deadline it wins.
        if let Poll::Ready(frame) = inner.as_mut().poll_frame(cx) {
            let (overruled, echo) = match &frame {
                Some(Ok(frame)) => match frame.trailers_ref() {
                    Some(trailers) => (false, this.on_elapsed.is_echo(Ok(trailers))),
                    // A server that sends faster than we read never lets the body be pending, so
                    // the timer is never reached: check the clock for each frame but the last.
                    None => (!inner.is_end_stream(), false),
                },
                Some(Err(error)) => (false, this.on_elapsed.is_echo(Err(error))),
                None => (false, false),
            };
            let late = |armed: &Armed| {
                let now = tokio::time::Instant::now().into_std();
                now > armed.at || (echo && now == armed.at)
            };
            if !((overruled || echo) && this.armed.as_ref().is_some_and(late)) {
                return Poll::Ready(frame.map(|f| f.map_err(|e| this.on_elapsed.failed(e))));
            }
        } else {
            let Some(armed) = this.armed else {
                return Poll::Pending;
            };
            let at = tokio::time::Instant::from_std(armed.at);
            let sleep = this
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            ready!(sleep.as_mut().poll(cx));
        }
        let Some(armed) = this.armed else {
            return Poll::Pending;
        };
        this.inner.set(None);
        Poll::Ready(Some(
            this.on_elapsed
                .elapsed(armed.elapsed())
                .map(Frame::trailers),
        ))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
