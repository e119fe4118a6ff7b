//! tonic's own body type, which its channel takes.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use tower_service::Service;

/// Boxes the bodies of requests as tonic's channel takes them.
#[derive(Clone, Copy, Debug)]
pub struct TonicBody<S> {
    inner: S,
}

impl<S> TonicBody<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B> Service<Request<B>> for TonicBody<S>
where
    S: Service<Request<tonic::body::Body>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.inner.call(request.map(tonic::body::Body::new))
    }
}
