//! `WaitForReadyLayer`: calls that wait for a connection instead of failing without one
//! (`waitForReady`).
//!
//! A call that finds no server fails at once with UNAVAILABLE, or goes by its policy. With this
//! layer a call that waits for readiness stays one attempt: when nothing could be sent, because no
//! connection could be made or it went away before, the layer waits and tries again, until the
//! call's deadline and, as in gRPC, without an end where there is none. No attempt, no token and no
//! retry is used up. Any other failure passes at once, a dropped call too.
//!
//! Above [`Backends`](reattempt::Backends) the call tries each backend once before it waits, and
//! goes on with the one that it tried longest ago; each is then tried as often as if it were the
//! only one.
//!
//! Which calls wait is said by [`WaitForReady`] in the request's extensions, else by the method's
//! [`MethodPolicy`] (`waitForReady`); others pass untouched. Put it right below the recovery layer
//! and above [`PreviousAttemptsLayer`](crate::PreviousAttemptsLayer), which then writes the time
//! that is left when the request goes out. The transport's errors have to say that nothing was sent
//! ([`TransportError`]). A service that is not ready makes the call wait in any case, without this
//! layer too: that is tower's own word for it.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use reattempt::strategy::Once;
//! use reattempt::{CallContext, RetryLayer};
//! use reattempt_grpc::{GrpcClassifier, WaitForReady, WaitForReadyLayer};
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> io::Result<()> {
//! let began = tokio::time::Instant::now();
//! let service = ServiceBuilder::new()
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(GrpcClassifier::new(), Once))
//!     .layer(WaitForReadyLayer::new())
//!     .service_fn(move |_: Request<ReplayBody<Empty<Bytes>>>| async move {
//!         // A server that comes up after ten minutes.
//!         if began.elapsed() < Duration::from_secs(600) {
//!             return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
//!         }
//!         Ok(Response::builder().header("grpc-status", "0").body(()).unwrap())
//!     });
//! let mut request = Request::new(Empty::new());
//! request.extensions_mut().insert(WaitForReady(true));
//! let watch = CallContext::watch(&mut request);
//! assert_eq!(service.oneshot(request).await?.headers()["grpc-status"], "0");
//! assert_eq!(watch.info().attempts(), 1);
//! # Ok(()) }
//! ```

mod future;

use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use reattempt::backoff::{Backoff, Jitter};
use reattempt::order::InsideRecovery;
use reattempt::{Annotated, AttemptKind, CallContext, NextAttempt, Replay};
use reattempt_http::TransportError;
use tower_layer::Layer;
use tower_service::Service;

pub use future::WaitForReadyFuture;

use crate::MethodPolicy;
use future::Waiting;

/// In a request's extensions: whether this one call waits for a connection, whatever its method's
/// policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitForReady(pub bool);

/// Makes calls wait for a connection that are to.
#[derive(Clone, Debug)]
pub struct WaitForReadyLayer {
    backoff: Backoff,
}

impl WaitForReadyLayer {
    /// Tries again after 20 ms, then after twice as long each time, up to a second; each time a
    /// fifth more or less.
    #[must_use]
    pub const fn new() -> Self {
        let backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
        Self {
            backoff: backoff.jitter(Jitter::Proportional(0.2)),
        }
    }

    /// Tries again after these delays.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
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
            order: InsideRecovery::default(),
        }
    }
}

/// Made by [`WaitForReadyLayer`].
#[derive(Clone, Debug)]
pub struct WaitsForReady<S> {
    inner: S,
    backoff: Backoff,
    order: InsideRecovery,
}

fn waits<B>(request: &Request<B>) -> bool {
    match request.extensions().get() {
        Some(WaitForReady(waits)) => *waits,
        None => {
            let method = request.context().and_then(MethodPolicy::of);
            method.and_then(|method| method.wait_for_ready) == Some(true)
        }
    }
}

/// The same attempt once more.
fn again<B: Replay>(request: &Request<B>) -> Option<Request<B>> {
    request.replay(&NextAttempt {
        number: request.context().map_or(0, CallContext::attempt),
        kind: AttemptKind::Initial,
        after: None,
    })
}

impl<S, B> Service<Request<B>> for WaitsForReady<S>
where
    S: Service<Request<B>> + Clone,
    S::Error: TransportError,
    B: Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = WaitForReadyFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.order.check("WaitForReadyLayer", request.context());
        let copy = if waits(&request) {
            again(&request)
        } else {
            None
        };
        let Some(copy) = copy else {
            return WaitForReadyFuture::new(self.inner.call(request), None);
        };
        let flight = self.inner.call(copy);
        // The instance that was ready has been called; its clone gets ready for the next time.
        let waiting = Waiting::new(request, self.inner.clone(), self.backoff.clone());
        WaitForReadyFuture::new(flight, Some(waiting))
    }
}
