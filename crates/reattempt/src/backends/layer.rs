use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{Backend, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

/// Reports that an attempt was sent to this backend. Put it around each service of a custom
/// balancer; [`RoundRobin`](super::RoundRobin) reports on its own.
#[derive(Clone, Debug)]
pub struct BackendLayer {
    backend: Backend,
}

impl BackendLayer {
    /// Sets the name of the backend in records, for example an address.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            backend: Backend::new(name),
        }
    }
}

impl<S> Layer<S> for BackendLayer {
    type Service = AtBackend<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AtBackend {
            inner,
            backend: self.backend.clone(),
        }
    }
}

/// The service of [`BackendLayer`].
#[derive(Clone, Debug)]
pub struct AtBackend<S> {
    inner: S,
    backend: Backend,
}

impl<S, Req> Service<Req> for AtBackend<S>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        if let Some(context) = request.context() {
            context.reporter().backend(self.backend.clone());
        }
        self.inner.call(request)
    }
}
