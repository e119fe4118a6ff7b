//! `IdempotencyKeyLayer`: a request with a key may be repeated.
//!
//! A server that knows the header carries out a request with the same key only once (IETF draft "The Idempotency-Key
//! HTTP Header Field"), so such a request is idempotent whatever its method. Put the layer above the
//! recovery layer, and below a `RouteLayer` whose routes say whether the key counts on them
//! ([`HttpRoute::idempotency_key`]; where a route says nothing, it does). What the caller stamped beats it.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::{Annotated, Idempotency};
//! use reattempt_http::IdempotencyKeyLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(IdempotencyKeyLayer::new())
//!     .service_fn(|request: Request<()>| async move {
//!         Ok::<_, std::convert::Infallible>(request.context().map(|context| context.idempotency()))
//!     });
//! let request = Request::post("/orders").header("idempotency-key", "\"8e03978e\"").body(()).unwrap();
//! assert_eq!(service.oneshot(request).await?, Some(Idempotency::Idempotent));
//! # Ok(()) }
//! ```

use std::task::{Context, Poll};

use http::HeaderName;
use reattempt::order::OutsideRecovery;
use reattempt::{Annotated, Idempotency};
use tower_layer::Layer;
use tower_service::Service;

use crate::HttpRoute;

/// Takes requests with an `Idempotency-Key` as idempotent.
#[derive(Clone, Debug)]
pub struct IdempotencyKeyLayer {
    header: HeaderName,
}

impl IdempotencyKeyLayer {
    /// Looks for `Idempotency-Key`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            header: HeaderName::from_static("idempotency-key"),
        }
    }

    /// Looks for a header of another name.
    #[must_use]
    pub const fn header(header: HeaderName) -> Self {
        Self { header }
    }
}

impl Default for IdempotencyKeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for IdempotencyKeyLayer {
    type Service = IdempotencyKey<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyKey {
            inner,
            header: self.header.clone(),
            order: OutsideRecovery::default(),
        }
    }
}

/// Made by [`IdempotencyKeyLayer`].
#[derive(Clone, Debug)]
pub struct IdempotencyKey<S> {
    inner: S,
    header: HeaderName,
    order: OutsideRecovery,
}

impl<S, B> Service<http::Request<B>> for IdempotencyKey<S>
where
    S: Service<http::Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let has_key = request
            .headers()
            .get(&self.header)
            .is_some_and(|key| !key.is_empty());
        if has_key {
            let context = request.context_mut();
            self.order.check("IdempotencyKeyLayer", context);
            let counts = HttpRoute::of(context).and_then(HttpRoute::get_idempotency_key);
            if counts.unwrap_or(true) && context.idempotency() == Idempotency::Unknown {
                context.set_idempotency(Idempotency::Idempotent);
            }
        }
        self.inner.call(request)
    }
}
