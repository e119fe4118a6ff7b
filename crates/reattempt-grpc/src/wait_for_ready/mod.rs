//! `WaitForReadyLayer`: calls that wait for a connection instead of failing without one
//! (`waitForReady`).
//!
//! A call without a reachable server fails at once with UNAVAILABLE, or by its policy. With this
//! layer a call that waits for readiness remains one attempt: if nothing could be sent, because no
//! connection could be made, it closed first, or there was
//! [no backend](crate::ControlPlaneFailure::no_backend), the layer waits and tries again until the
//! call's deadline or, as in gRPC, indefinitely if there is none. This uses up no attempt, no token
//! and no retry. Any other failure, including a dropped call, is returned at once.
//!
//! Above [`Backends`](reattempt::Backends) or [`RoundRobin`](reattempt::RoundRobin) the call tries
//! each backend once before it waits, and continues with another, with `RoundRobin` the one tried
//! longest ago; each is then tried as often as if it were the only one.
//!
//! [`WaitForReady`] in the request's extensions decides which calls wait, else the method's
//! [`MethodPolicy`] (`waitForReady`); other calls pass unchanged. Place the layer directly below
//! the recovery layer and above [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer), which then
//! writes the time left when the request is sent. The transport's errors must tell whether the
//! request was sent ([`TransportError`]). A service whose `poll_ready` is pending makes a call wait
//! in any case, also without this layer.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use reattempt::strategy::RetryOnce;
//! use reattempt::{RetryInfo, RetryLayer};
//! use reattempt_grpc::{GrpcClassifier, WaitForReady, WaitForReadyLayer};
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> io::Result<()> {
//! let began = tokio::time::Instant::now();
//! let service = ServiceBuilder::new()
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
//!     .layer(WaitForReadyLayer::new())
//!     .service_fn(move |_: Request<ReplayBody<Empty<Bytes>>>| async move {
//!         // A server that starts after ten minutes.
//!         if began.elapsed() < Duration::from_secs(600) {
//!             return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
//!         }
//!         Ok(Response::builder().header("grpc-status", "0").body(()).unwrap())
//!     });
//! let mut request = Request::new(Empty::new());
//! request.extensions_mut().insert(WaitForReady(true));
//! let watch = RetryInfo::track(&mut request);
//! assert_eq!(service.oneshot(request).await?.headers()["grpc-status"], "0");
//! assert_eq!(watch.info().attempts(), 1);
//! # Ok(()) }
//! ```

mod future;

use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::{AttemptKind, CallContext, HasCallContext, NextAttempt, Replay, StackCheck};
use reattempt_http::TransportError;
use tower_layer::Layer;
use tower_service::Service;

pub use future::WaitForReadyFuture;

use crate::MethodPolicy;
use crate::previous_attempts::note_waiting;
use future::Waiting;

/// Request extension: whether this call waits for a connection, regardless of its method's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitForReady(pub bool);

/// Makes calls wait for a connection, if they are configured to.
#[derive(Clone, Debug)]
pub struct WaitForReadyLayer {
    backoff: Backoff,
}

impl WaitForReadyLayer {
    /// Tries again after 20 ms and then doubles the delay up to one second, with ±20 % jitter.
    #[must_use]
    pub const fn new() -> Self {
        let backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
        Self {
            backoff: backoff.jitter(Jitter::Proportional(0.2)),
        }
    }

    /// Sets the delays between tries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the source of the delays' jitter; by default that of the backoff, which is the thread's
    /// generator unless it was given another one.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.backoff = self.backoff.randomness(randomness);
        self
    }
}

impl Default for WaitForReadyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for WaitForReadyLayer {
    type Service = WaitsForReady<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WaitsForReady {
            inner,
            backoff: self.backoff.clone(),
            order: StackCheck::default(),
        }
    }
}

/// The service that [`WaitForReadyLayer`] creates.
#[derive(Clone, Debug)]
pub struct WaitsForReady<S> {
    inner: S,
    backoff: Backoff,
    order: StackCheck,
}

fn waits<B>(request: &Request<B>, context: Option<&CallContext>) -> bool {
    match request.extensions().get() {
        Some(WaitForReady(waits)) => *waits,
        None => {
            let method = context.and_then(MethodPolicy::of);
            method.and_then(|method| method.wait_for_ready) == Some(true)
        }
    }
}

/// A copy of the same attempt.
fn again<B: Replay>(request: &Request<B>) -> Option<Request<B>> {
    let number = request.context().map_or(0, CallContext::attempt);
    request.replay(&NextAttempt::new(number, AttemptKind::Initial, None))
}

impl<S, B, R> Service<Request<B>> for WaitsForReady<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: TransportError,
    B: Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = WaitForReadyFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("WaitForReadyLayer", context);
        let copy = if waits(&request, context) {
            note_waiting(&mut request);
            again(&request)
        } else {
            None
        };
        let Some(copy) = copy else {
            return WaitForReadyFuture::new(self.inner.call(request), None);
        };
        let flight = self.inner.call(copy);
        // The ready instance has been called; its clone becomes ready for the next try.
        let waiting = Waiting::new(request, self.inner.clone(), self.backoff.clone());
        WaitForReadyFuture::new(flight, Some(waiting))
    }
}
