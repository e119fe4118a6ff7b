//! `ServiceErrorLayer`: reads the service's own error from the body of a response, and passes the
//! body on unchanged.
//!
//! Put it inside the recovery layer, directly above the transport. It reads as little as the
//! verdict needs, buffers it, and gives the caller a body that starts with that part: nothing is
//! lost, added or reordered, and an error of the body reaches the caller at the same position. It
//! changes the response type: `Response<B>` becomes `Response<ServiceBody<B>>`.
//!
//! | response | read until |
//! | --- | --- |
//! | not 2xx, of query or analytics | its first error is complete |
//! | not 2xx, of search or views, where the text matters | the text is found |
//! | any other that is not 2xx | not at all: the status decides |
//! | 2xx | its first error (query, analytics) is complete |
//!
//! Reading also stops at the body's end and at these limits: a failed response is classified by its
//! first 64 KiB, or what arrived within 5 s; a successful one is released after 16 KiB, or 1 s
//! after its first row. After that the rest is checked while the caller reads it: a late error, or
//! a body that fails late, causes no further attempt, but counts as a failure (for the throttle, in
//! `RetryInfo`). Compressed bodies are not read: the status decides.

mod body;
mod future;
mod held;
mod progress;

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use reattempt::{CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

pub use body::ServiceBody;
pub use future::ServiceErrorFuture;

use super::HttpService;

/// How much of a response is read before it is classified.
#[derive(Clone, Copy)]
struct Bounds {
    bytes: usize,
    time: Duration,
}

/// Of a failed response: its first bytes, or what arrived within the time.
const FAILED: Bounds = Bounds {
    bytes: 64 * 1024,
    time: Duration::from_secs(5),
};

/// Of a successful one: the time runs from its first row; for search, views and management from its
/// head. Until then an error in it causes another attempt, and the caller waits.
const GOOD: Bounds = Bounds {
    bytes: 16 * 1024,
    time: Duration::from_secs(1),
};

/// Reads errors from bodies. The result is a [`ServiceAnswer`](super::ServiceAnswer) in the
/// response's extensions.
#[derive(Clone, Copy, Debug)]
pub struct ServiceErrorLayer {
    service: HttpService,
}

impl ServiceErrorLayer {
    /// For responses of this service.
    #[must_use]
    pub const fn new(service: HttpService) -> Self {
        Self { service }
    }
}

impl<S> Layer<S> for ServiceErrorLayer {
    type Service = ServiceErrorService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServiceErrorService {
            inner,
            layer: *self,
            order: StackCheck::default(),
        }
    }
}

/// Created by [`ServiceErrorLayer`].
#[derive(Clone, Debug)]
pub struct ServiceErrorService<S> {
    inner: S,
    layer: ServiceErrorLayer,
    order: StackCheck,
}

impl<S, Req, B> Service<Req> for ServiceErrorService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body<Data = Bytes> + Unpin,
    Req: HasCallContext,
{
    type Response = Response<ServiceBody<B>>;
    type Error = S::Error;
    type Future = ServiceErrorFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context();
        self.order.inside_recovery("ServiceErrorLayer", context);
        let reporter = context.map(CallContext::reporter).unwrap_or_default();
        ServiceErrorFuture::new(self.inner.call(request), self.layer, reporter)
    }
}
