//! `ReplayBodyLayer`: makes request bodies replayable.
//!
//! Put it above the recovery layer. It changes the request type for the layers below: `Request<B>`
//! becomes `Request<ReplayBody<B>>`.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_http::HttpClassifier;
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::io::Error> {
//! let service = ServiceBuilder::new()
//!     .layer(ReplayBodyLayer::new().bytes_per_call(64 * 1024))
//!     .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
//!     .service_fn(|request: Request<ReplayBody<Full<Bytes>>>| async {
//!         let body = request.into_body().collect().await.map_err(std::io::Error::other)?;
//!         assert_eq!(body.to_bytes(), "the whole body, each time");
//!         Ok::<_, std::io::Error>(Response::builder().status(503).body(()).unwrap())
//!     });
//! let request = Request::put("/k").body(Full::from("the whole body, each time")).unwrap();
//! assert_eq!(service.oneshot(request).await?.status(), 503);
//! # Ok(()) }
//! ```

use std::task::{Context, Poll};

use http::Request;
use http_body::Body;
use reattempt::{CallContext, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

use super::{BufferBudget, DEFAULT_BYTES_PER_CALL, ReplayBody};
use crate::HttpRoute;

/// Wraps request bodies in [`ReplayBody`]. By default buffers 256 KiB per call, and 16 MiB for all
/// calls of this layer and its clones.
#[derive(Clone, Debug)]
pub struct ReplayBodyLayer {
    bytes: usize,
    budget: Option<BufferBudget>,
}

impl ReplayBodyLayer {
    /// With the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: DEFAULT_BYTES_PER_CALL,
            budget: Some(BufferBudget::default()),
        }
    }

    /// Buffers at most this many bytes of one call's body. The limit of the call's route takes
    /// precedence ([`HttpRoute::body_limit`](crate::HttpRoute::body_limit)).
    #[must_use]
    pub const fn bytes_per_call(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Takes the memory from this budget, which other layers may share.
    #[must_use]
    pub fn budget(mut self, budget: BufferBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets no limit over all calls.
    #[must_use]
    pub fn no_budget(mut self) -> Self {
        self.budget = None;
        self
    }
}

impl ReplayBodyLayer {
    /// The limits of a call: its route's take precedence.
    #[inline]
    pub(crate) fn of(&self, context: Option<&CallContext>) -> Limits<'_> {
        let of_route = context.and_then(HttpRoute::of);
        let of_route = of_route.and_then(HttpRoute::body_limit);
        Limits {
            bytes: of_route.unwrap_or(self.bytes),
            budget: self.budget.as_ref(),
        }
    }
}

/// The limits of one call.
pub(crate) struct Limits<'a> {
    bytes: usize,
    budget: Option<&'a BufferBudget>,
}

impl Limits<'_> {
    #[inline]
    pub(crate) fn wrap<B>(self, body: B) -> ReplayBody<B>
    where
        B: Body + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if body.is_end_stream() {
            return ReplayBody::empty();
        }
        ReplayBody::with_limits(body, self.bytes, self.budget.cloned())
    }
}

impl Default for ReplayBodyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ReplayBodyLayer {
    type Service = ReplayBodyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReplayBodyService {
            inner,
            limits: self.clone(),
        }
    }
}

/// Created by [`ReplayBodyLayer`].
#[derive(Clone, Debug)]
pub struct ReplayBodyService<S> {
    inner: S,
    limits: ReplayBodyLayer,
}

impl<S, B> Service<Request<B>> for ReplayBodyService<S>
where
    S: Service<Request<ReplayBody<B>>>,
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let body = self.limits.of(request.context());
        self.inner.call(request.map(|inner| body.wrap(inner)))
    }
}
