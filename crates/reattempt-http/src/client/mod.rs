//! `HttpClientLayer`: retries for an HTTP client in one line.
//!
//! Works around hyper-util's client and any other `Service<http::Request<B>>`; for reqwest's own
//! builder see the feature `reqwest`. It is an ordinary layer: the single layers in the documented
//! order, with a default for each, and nothing is possible only through it.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use reattempt_http::HttpClientLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use reattempt_http::body::ReplayBody;
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), reattempt::ClientError<std::io::Error>> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! # let hyper_client = tower::service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//! #     let status = if CALLS.fetch_add(1, Ordering::Relaxed) == 0 { 503 } else { 200 };
//! #     let response = Response::builder().status(status);
//! #     Ok::<_, std::io::Error>(response.body(Full::<Bytes>::default()).unwrap())
//! # });
//! let client = ServiceBuilder::new().layer(HttpClientLayer::standard()).service(hyper_client);
//!
//! let request = Request::put("http://shop.example/cart").body(Full::<Bytes>::from("one loaf")).unwrap();
//! assert_eq!(client.oneshot(request).await?.status(), 200); // after a 503
//! # Ok(()) }
//! ```

mod breakers;
mod defaults;
mod layer;
mod limits_apart;
mod origin;
mod overload;
mod presets;
mod recovery;
mod service_builder;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use reattempt::admission::Admit;
use reattempt::circuit_breaker::Circuit;
use reattempt::client_error::WithClientError;
use reattempt::deadline::{AsError, Deadline};
use reattempt::hedge::HedgeUnclaimed;
use reattempt::pushback::Pushback;
use reattempt::retry::Retry;
use reattempt::{ClientError, Route};
use tower_service::Service;

use crate::body::{DeadlineBody, DeadlineBodyService, ReplayBody};
use crate::call::{ExtendContext, InlineContext, ReplayCallBody};
use crate::{HttpClassifier, HttpPushback, IdempotencyKey, TransportError, TransportFault};
pub use breakers::{NoBreakers, OriginBreakers};
use defaults::{CallDefaults, OriginAdmissions};
pub use layer::{HttpClientLayer, NoRoutes};
pub use limits_apart::LimitsApart;
pub use origin::MOST_ORIGINS;
pub use service_builder::HttpServiceBuilderExt;

/// The single layers of a client, from the outside in.
type Stack<I, R> = Admit<Routes<I, R>, AsError, OriginAdmissions>;
/// From the policy of a request on, with the context inline.
type Routes<I, R> = InlineContext<IdempotencyKey<CallDefaults<Deadline<PerCall<I>>>>, R>;
/// From the body's limit to the recovery layers, which send [`PerAttempt`]s.
type PerCall<I> = DeadlineBodyService<ReplayCallBody<Recovery<PerAttempt<I>>>>;
type Recovery<S> = Retry<HedgeUnclaimed<S, HttpClassifier>, HttpClassifier>;
type PerAttempt<I> = Deadline<Pushback<ExtendContext<I>, Arc<HttpPushback>>>;
/// What a client with circuit breakers has around its transport.
pub type WithBreakers<S> = Circuit<WithClientError<S>, HttpClassifier, AsError, OriginBreakers>;

/// An HTTP client that retries. Made by [`HttpClientLayer`]: `S` is the transport, `R` are the
/// routes, and `I` is what it has around the transport, [`WithBreakers`] with circuit breakers.
///
/// Its response body is a [`DeadlineBody`], which bounds the time of the body where a limit was
/// set, and passes it through otherwise. Its error is a [`ClientError`] with the transport's own.
pub struct HttpClient<S, R = NoRoutes, I = WithClientError<S>> {
    stack: Stack<I, R>,
    transport: PhantomData<fn() -> S>,
}

impl<S, R, I> HttpClient<S, R, I> {
    const fn new(stack: Stack<I, R>) -> Self {
        Self {
            stack,
            transport: PhantomData,
        }
    }
}

impl<S, R: Clone, I: Clone> Clone for HttpClient<S, R, I> {
    fn clone(&self) -> Self {
        Self::new(self.stack.clone())
    }
}

impl<S, R, I> fmt::Debug for HttpClient<S, R, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl<S, R, I, B, A> Service<Request<B>> for HttpClient<S, R, I>
where
    S: Service<Request<ReplayBody<B>>, Error: TransportError>,
    I: Service<Request<ReplayBody<B>>, Response = Response<A>, Error = ClientError<S::Error>>
        + Clone,
    R: Route<Request<B>> + Clone,
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    A: Body,
{
    type Response = Response<DeadlineBody<A>>;
    type Error = ClientError<S::Error>;
    type Future = <Stack<I, R> as Service<Request<B>>>::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.stack.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.stack.call(request)
    }
}

/// Lets the classifier read the transport's error below a deadline.
impl<E: TransportError> TransportError for ClientError<E> {
    fn fault(&self) -> TransportFault {
        match self {
            Self::Transport(error) => error.fault(),
            Self::Elapsed(error) => TransportFault::of(error),
            Self::Refused(error) => TransportFault::of(error),
            Self::CircuitOpen(error) => TransportFault::of(error),
            _ => TransportFault::Unknown,
        }
    }

    fn unknown_type(&self) -> Option<String> {
        self.transport().and_then(E::unknown_type)
    }
}
