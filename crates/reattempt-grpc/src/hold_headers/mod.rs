//! `HoldHeadersLayer`: for servers that send a failure in real trailers although no message came
//! before it.
//!
//! A6 commits a call at its Response-Headers, and asks servers to send a failure as Trailers-Only.
//! Many servers send headers first and then trailers with the failure: such a call is never
//! retried. This layer holds the headers of a unary call until the first frame of the body arrives.
//! If that frame is trailers with a status other than OK, headers and trailers are merged into one
//! Trailers-Only response, which the layers above retry, count and read pushback from as usual. Any
//! other first frame is put back in front of the body, and the call continues as without the layer.
//!
//! The layer does nothing by default: calls are marked by [`Unary`] in the request's extensions or
//! by their [methods](HoldHeadersLayer::methods). It waits at most 100 ms by default, and never
//! past the call's deadline; the caller of a unary method waits for the message anyway. It keeps
//! one frame. Place it below the recovery layer and below
//! [`GrpcOutcomeLayer`](crate::GrpcOutcomeLayer), around the transport. It changes the response
//! type: `Response<B>` becomes `Response<HeldBody<B>>`; `B` must be `Unpin`.
//!
//! ```
//! use http::{HeaderMap, Request, Response};
//! use http_body_util::{BodyExt, Empty};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_grpc::{GrpcClassifier, GrpcOutcomeLayer, HoldHeadersLayer, Unary};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
//!     .layer(GrpcOutcomeLayer::new())
//!     .layer(HoldHeadersLayer::new())
//!     .service_fn(|_: Request<()>| async {
//!         // Headers, then UNAVAILABLE in trailers; OK the second time.
//!         # let status = if CALLS.fetch_add(1, Ordering::Relaxed) == 0 { 14 } else { 0 };
//!         let mut trailers = HeaderMap::new();
//!         trailers.insert("grpc-status", status.into());
//!         let body = Empty::<Bytes>::new().with_trailers(std::future::ready(Some(Ok(trailers))));
//!         Ok::<_, BoxError>(Response::new(body))
//!     });
//! let mut request = Request::new(());
//! request.extensions_mut().insert(Unary);
//! service.oneshot(request).await?;
//! # assert_eq!(CALLS.load(Ordering::Relaxed), 2);
//! # Ok(()) }
//! ```

mod body;
mod future;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use reattempt::{CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

pub use body::HeldBody;
pub use future::HoldHeadersFuture;

use future::Until;

/// Request extension: the call sends one message and receives one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unary;

/// How long headers are held by default. A server that fails a call writes headers and trailers
/// directly after each other.
const AT_MOST: Duration = Duration::from_millis(100);

type Methods = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Holds the Response-Headers of unary calls until the first frame of the body arrives.
#[derive(Clone)]
pub struct HoldHeadersLayer {
    methods: Option<Methods>,
    at_most: Duration,
}

impl HoldHeadersLayer {
    /// For requests that carry [`Unary`], for at most 100 ms.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            methods: None,
            at_most: AT_MOST,
        }
    }

    /// Also treats methods as unary for which this returns true, given the path
    /// (`/package.Service/Method`).
    #[must_use]
    pub fn methods(mut self, are_unary: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.methods = Some(Arc::new(are_unary));
        self
    }

    /// Holds headers for at most this time. With zero, only a frame that arrived together with the
    /// headers is seen.
    #[must_use]
    pub const fn at_most(mut self, time: Duration) -> Self {
        self.at_most = time;
        self
    }

    fn holds<B>(&self, request: &Request<B>) -> bool {
        request.extensions().get::<Unary>().is_some()
            || self
                .methods
                .as_ref()
                .is_some_and(|are_unary| are_unary(request.uri().path()))
    }
}

impl Default for HoldHeadersLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HoldHeadersLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHeadersLayer")
            .field("at_most", &self.at_most)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for HoldHeadersLayer {
    type Service = HoldHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HoldHeaders {
            inner,
            config: self.clone(),
            order: StackCheck::default(),
        }
    }
}

/// The service that [`HoldHeadersLayer`] creates.
#[derive(Clone, Debug)]
pub struct HoldHeaders<S> {
    inner: S,
    config: HoldHeadersLayer,
    order: StackCheck,
}

impl<S, B, R> Service<Request<B>> for HoldHeaders<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body + Unpin,
{
    type Response = Response<HeldBody<R>>;
    type Error = S::Error;
    type Future = HoldHeadersFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.order
            .inside_recovery("HoldHeadersLayer", request.context());
        let until = self.config.holds(&request).then(|| Until {
            at_most: self.config.at_most,
            deadline: request
                .context()
                .and_then(CallContext::deadline)
                .map(|deadline| deadline.at),
        });
        HoldHeadersFuture::new(self.inner.call(request), until)
    }
}
