//! `ServerHopLayer`: reads what the calling service reported, and marks responses "do not retry" if
//! this service has already retried.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use pin_project_lite::pin_project;
use reattempt::timer::Timer;
use reattempt::{CallDeadline, HasCallContext, StopReason};
use tower_layer::Layer;
use tower_service::Service;

use super::clock_skew::ClockSkew;
use super::headers::{ENVOY_RATELIMITED, GRPC_PUSHBACK, GRPC_STATUS, set_do_not_retry};
use super::{GaveUp, Hop};
use crate::wall_clock;

/// For servers: puts a [`Hop`] into each request, refuses those whose deadline has passed, stops
/// work that the caller no longer waits for, and marks failures that should not be retried. Put it
/// outermost, above any queue.
///
/// Errors of the service are passed through, except at the deadline, which has a response of its
/// own: a 504; for gRPC, but not gRPC-Web, a status of `DEADLINE_EXCEEDED`. A refused request gets
/// the same. The body of such a response is its type's default. It is marked only if a call for the
/// request has given up, or was retried: the time that is over may be that of one attempt of the
/// caller, which can make another.
#[derive(Clone, Copy, Debug)]
pub struct ServerHopLayer {
    wall_clock: fn() -> SystemTime,
    skew: ClockSkew,
    envoy: bool,
    finishes: bool,
}

impl ServerHopLayer {
    /// With a clock skew of one second, work stopped at its deadline, and without the header for
    /// Envoy.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            wall_clock: wall_clock::SYSTEM,
            skew: ClockSkew(Duration::from_secs(1)),
            envoy: false,
            finishes: false,
        }
    }

    /// Uses this clock for instants (the `ttl` of `amz-sdk-request`).
    #[must_use]
    pub const fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.wall_clock = now;
        self
    }

    /// How far the clocks of clients may be behind this server's: an instant counts as passed only
    /// this much later. One second by default, which is the header's precision.
    #[must_use]
    pub const fn clock_skew(mut self, skew: Duration) -> Self {
        self.skew = ClockSkew(skew);
        self
    }

    /// Sets [`ENVOY_RATELIMITED`] besides [`DO_NOT_RETRY`](super::DO_NOT_RETRY): the only header
    /// that keeps an Envoy in front of this server from retrying. Other readers take it for a rate
    /// limit.
    #[must_use]
    pub const fn for_envoy(mut self) -> Self {
        self.envoy = true;
        self
    }

    /// Lets started work continue past its deadline. By default it is dropped then, as it is when
    /// the client disconnects.
    #[must_use]
    pub const fn finish_late_work(mut self) -> Self {
        self.finishes = true;
        self
    }
}

impl Default for ServerHopLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ServerHopLayer {
    type Service = ServerHop<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServerHop {
            inner,
            settings: *self,
        }
    }
}

/// Created by [`ServerHopLayer`].
#[derive(Clone, Debug)]
pub struct ServerHop<S> {
    inner: S,
    settings: ServerHopLayer,
}

impl<S, B, C> Service<Request<B>> for ServerHop<S>
where
    S: Service<Request<B>, Response = Response<C>> + Clone,
    C: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ServeHopFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let ServerHopLayer {
            wall_clock,
            skew,
            envoy,
            finishes,
        } = self.settings;
        let now = tokio::time::Instant::now().into_std();
        let hop = Hop::read(request.headers(), now, wall_clock(), skew);
        let grpc = is_grpc(request.headers());
        let deadline = hop.deadline();
        let inner = if deadline.is_some_and(|at| at <= now) {
            // The service that got ready may hold a permit for this request.
            self.inner = self.inner.clone();
            None
        } else {
            if let Some(at) = deadline {
                request
                    .context_mut()
                    .attach_deadline(CallDeadline::attached(at));
            }
            request.extensions_mut().insert(hop.clone());
            Some(self.inner.call(request))
        };
        ServeHopFuture {
            inner,
            timer: Timer::default(),
            ends: deadline.filter(|_| !finishes),
            hop,
            grpc,
            envoy,
        }
    }
}

/// `application/grpc`, alone or with a format or parameters. A client of gRPC-Web reads no response
/// of this type.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

pin_project! {
    /// The future of [`ServerHop`].
    #[derive(Debug)]
    pub struct ServeHopFuture<F> {
        // None: its deadline passed before it started, or while it ran.
        #[pin]
        inner: Option<F>,
        timer: Timer,
        ends: Option<Instant>,
        hop: Hop,
        grpc: bool,
        envoy: bool,
    }
}

impl<F, C, E> Future for ServeHopFuture<F>
where
    F: Future<Output = Result<Response<C>, E>>,
    C: Default,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(inner) = this.inner.as_mut().as_pin_mut() {
            if let Poll::Ready(outcome) = inner.poll(cx) {
                // The same deadline may end one of its own calls, whose failure may arrive first.
                let late = |at: &Instant| *at <= tokio::time::Instant::now().into_std();
                let response = match outcome {
                    Err(_) if this.ends.as_ref().is_some_and(late) => too_late(*this.grpc),
                    outcome => outcome?,
                };
                return Poll::Ready(Ok(marked(response, this.hop, *this.envoy)));
            }
            let Some(at) = *this.ends else {
                return Poll::Pending;
            };
            this.timer.set_to(at);
            ready!(this.timer.poll(cx));
        }
        // The calls that it made report now whether they retried.
        this.inner.set(None);
        Poll::Ready(Ok(marked(too_late(*this.grpc), this.hop, *this.envoy)))
    }
}

/// The response, marked if it is a failure and a call for it has given up.
fn marked<C>(mut response: Response<C>, hop: &Hop, envoy: bool) -> Response<C> {
    let said = response.extensions().get().map(|GaveUp(why)| *why);
    let why = hop.gave_up().or(said);
    if let Some(why) = why.filter(|_| is_failure(&response)) {
        mark(response.headers_mut(), why, envoy);
    }
    response
}

/// A status from 400 up, or a gRPC response that consists of the head and is not OK.
fn is_failure<C>(response: &Response<C>) -> bool {
    let grpc = response.headers().get(GRPC_STATUS);
    response.status().as_u16() >= 400 || grpc.is_some_and(|status| status.as_bytes() != b"0")
}

fn mark(headers: &mut HeaderMap, why: StopReason, envoy: bool) {
    set_do_not_retry(headers, why.name());
    if headers.contains_key(GRPC_STATUS) {
        headers.insert(GRPC_PUSHBACK, HeaderValue::from_static("-1"));
    }
    if envoy {
        headers.insert(ENVOY_RATELIMITED, HeaderValue::from_static("true"));
    }
}

/// The response to a request that the caller no longer waits for.
fn too_late<C: Default>(grpc: bool) -> Response<C> {
    let mut response = Response::new(C::default());
    if grpc {
        let headers = response.headers_mut();
        let fields = [
            (header::CONTENT_TYPE, "application/grpc"),
            (GRPC_STATUS, "4"),
            (
                header::HeaderName::from_static("grpc-message"),
                "the deadline of the request has passed",
            ),
        ];
        headers.extend(fields.map(|(name, value)| (name, HeaderValue::from_static(value))));
    } else {
        *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    }
    response
}
