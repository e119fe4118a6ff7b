//! `ReplayBodyLayer` for requests with an inline context.

use std::task::{Context, Poll};

use http_body::Body;
use reattempt::HasCallContext;
use tower_layer::Layer;
use tower_service::Service;

use super::HttpCall;
use crate::body::{ReplayBody, ReplayBodyLayer};

/// A [`ReplayBodyLayer`] below an [`InlineContextLayer`](super::InlineContextLayer).
#[derive(Clone, Debug, Default)]
pub struct ReplayCallBodyLayer(ReplayBodyLayer);

impl ReplayCallBodyLayer {
    /// With the limits of this layer.
    #[must_use]
    pub const fn new(limits: ReplayBodyLayer) -> Self {
        Self(limits)
    }
}

impl<S> Layer<S> for ReplayCallBodyLayer {
    type Service = ReplayCallBody<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReplayCallBody {
            inner,
            limits: self.0.clone(),
        }
    }
}

/// Created by [`ReplayCallBodyLayer`].
#[derive(Clone, Debug)]
pub struct ReplayCallBody<S> {
    inner: S,
    limits: ReplayBodyLayer,
}

impl<S, B> Service<HttpCall<B>> for ReplayCallBody<S>
where
    S: Service<HttpCall<ReplayBody<B>>>,
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: HttpCall<B>) -> Self::Future {
        let body = self.limits.of(request.context());
        self.inner.call(request.map_body(|inner| body.wrap(inner)))
    }
}
