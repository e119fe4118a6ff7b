//! `IdempotencyKeyLayer`: a request with a key may be retried.
//!
//! A server that supports the header processes requests with the same key only once (IETF draft
//! "The Idempotency-Key HTTP Header Field"), so such a request is idempotent with any method. Put
//! the layer above the recovery layer, and below a `RouteLayer` whose routes decide whether the key
//! counts ([`HttpRoute::idempotency_key`]; by default it does, unless the layer is
//! [by policy only](IdempotencyKeyLayer::by_policy)). What the caller has set takes precedence.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::{HasCallContext, Idempotency};
//! use reattempt_http::IdempotencyKeyLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(IdempotencyKeyLayer::new())
//!     .service_fn(|request: Request<()>| async move {
//!         Ok::<_, std::convert::Infallible>(request.context().map(|context| context.idempotency()))
//!     });
//! let request = Request::post("/orders")
//!     .header("idempotency-key", "\"8e03978e\"")
//!     .body(())
//!     .unwrap();
//! assert_eq!(service.oneshot(request).await?, Some(Idempotency::Idempotent));
//! # Ok(()) }
//! ```

use std::task::{Context, Poll};

use http::HeaderName;
use reattempt::order::OutsideRecovery;
use reattempt::{HasCallContext, Idempotency};
use tower_layer::Layer;
use tower_service::Service;

use crate::HttpRoute;

/// Treats requests with an `Idempotency-Key` as idempotent.
#[derive(Clone, Debug)]
pub struct IdempotencyKeyLayer {
    header: HeaderName,
    unless_said: bool,
}

impl IdempotencyKeyLayer {
    /// Reads the header `Idempotency-Key`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            header: HeaderName::from_static("idempotency-key"),
            unless_said: true,
        }
    }

    /// Reads a header with another name.
    #[must_use]
    pub const fn header(header: HeaderName) -> Self {
        Self {
            header,
            unless_said: true,
        }
    }

    /// The key counts only on routes whose policy enables it.
    #[must_use]
    pub const fn by_policy(mut self) -> Self {
        self.unless_said = false;
        self
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
            unless_said: self.unless_said,
            order: OutsideRecovery::default(),
        }
    }
}

/// Created by [`IdempotencyKeyLayer`].
#[derive(Clone, Debug)]
pub struct IdempotencyKey<S> {
    inner: S,
    header: HeaderName,
    unless_said: bool,
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
            let counts = HttpRoute::of(context).and_then(HttpRoute::idempotency_key);
            if counts.unwrap_or(self.unless_said) && context.idempotency() == Idempotency::Unknown {
                context.set_idempotency(Idempotency::Idempotent);
            }
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use reattempt::{CallContext, RoutePolicy};
    use tower::{ServiceExt, service_fn};

    use super::*;

    async fn counts(layer: IdempotencyKeyLayer, of_route: Option<bool>) -> bool {
        let service = layer.layer(service_fn(|request: Request<()>| async move {
            let idempotency = request.context().map(CallContext::idempotency);
            Ok::<_, Infallible>(Response::new(idempotency == Some(Idempotency::Idempotent)))
        }));
        let keyed = Request::post("/orders").header("idempotency-key", "a");
        let mut request = keyed.body(()).unwrap();
        if let Some(said) = of_route {
            let data = HttpRoute::new().with_idempotency_key(said);
            let policy = RoutePolicy::new("orders").with_data(data);
            request.context_mut().stamp_policy(Arc::new(policy));
        }
        service.oneshot(request).await.unwrap().into_body()
    }

    #[tokio::test]
    async fn the_routes_word_counts_and_without_any_the_layers() {
        for (layer, unless_said) in [
            (IdempotencyKeyLayer::new(), true),
            (IdempotencyKeyLayer::new().by_policy(), false),
        ] {
            assert!(counts(layer.clone(), Some(true)).await);
            assert!(!counts(layer.clone(), Some(false)).await);
            assert_eq!(counts(layer, None).await, unless_said);
        }
    }
}
