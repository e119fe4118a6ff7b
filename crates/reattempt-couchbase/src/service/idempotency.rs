//! `ServiceIdempotencyLayer`: sets for each request whether it is idempotent (RFC 0049, Idempotent
//! Operation List).
//!
//! The HTTP method is the wrong criterion both ways: a search is a POST and only reads; a
//! management PUT or DELETE is not in RFC 0049's list. Put the layer outermost, also above a
//! `DeadlineLayer`, which needs it to decide whether a timeout is ambiguous. What the caller has
//! set takes precedence.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::{HasCallContext, Idempotency, StackCheck};
//! use reattempt_couchbase::service::{HttpService, ReadOnly, ServiceIdempotencyLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(ServiceIdempotencyLayer::new(HttpService::query()))
//!     .service_fn(|request: Request<()>| async move {
//!         let context = request.context();
//!         Ok::<_, std::convert::Infallible>(context.map(|context| context.idempotency()))
//!     });
//! let query = || Request::post("http://node:8093/query/service");
//! let plain = query().body(()).unwrap();
//! assert_eq!(service.clone().oneshot(plain).await?, Some(Idempotency::NotIdempotent));
//! let read_only = query().extension(ReadOnly).body(()).unwrap();
//! assert_eq!(service.oneshot(read_only).await?, Some(Idempotency::Idempotent));
//! # Ok(()) }
//! ```

use std::task::{Context, Poll};

use reattempt::{HasCallContext, Idempotency, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

use super::HttpService;

/// Extension of a request to the query or analytics service: its `readonly` property is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOnly;

/// Sets the idempotency of each request by RFC 0049's list.
#[derive(Clone, Copy, Debug)]
pub struct ServiceIdempotencyLayer {
    service: HttpService,
}

impl ServiceIdempotencyLayer {
    /// For requests to this service.
    #[must_use]
    pub const fn new(service: HttpService) -> Self {
        Self { service }
    }
}

impl<S> Layer<S> for ServiceIdempotencyLayer {
    type Service = ServiceIdempotency<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServiceIdempotency {
            inner,
            service: self.service,
            order: StackCheck::default(),
        }
    }
}

/// Created by [`ServiceIdempotencyLayer`].
#[derive(Clone, Debug)]
pub struct ServiceIdempotency<S> {
    inner: S,
    service: HttpService,
    order: StackCheck,
}

impl<S, B> Service<http::Request<B>> for ServiceIdempotency<S>
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
        let read_only = request.extensions().get::<ReadOnly>().is_some();
        let listed = self.service.idempotency(request.method(), read_only);
        let context = request.context_mut();
        self.order
            .outside_recovery("ServiceIdempotencyLayer", context);
        if context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(listed);
        }
        self.inner.call(request)
    }
}
