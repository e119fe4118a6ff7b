//! The time of a call: a durable write has more.

use std::task::{Context, Poll};
use std::time::Duration;

use reattempt::deadline::{AsError, DeadlineFuture};
use reattempt::{DeadlineLayer, Elapsed, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

use crate::kv::KvRequest;

/// A `DeadlineLayer` that depends on the request.
#[derive(Clone, Debug)]
pub(super) struct TimeoutLayer {
    durable: DeadlineLayer,
    other: DeadlineLayer,
}

impl TimeoutLayer {
    /// A policy's timeout replaces both.
    pub(super) fn new(durable: Duration, other: Duration) -> Self {
        Self {
            durable: DeadlineLayer::new(durable).unless_policy(),
            other: DeadlineLayer::new(other).unless_policy(),
        }
    }

    pub(super) const fn none() -> Self {
        Self {
            durable: DeadlineLayer::no_timeout(),
            other: DeadlineLayer::no_timeout(),
        }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeouts<S>;

    fn layer(&self, inner: S) -> Timeouts<S> {
        Timeouts {
            inner,
            layer: self.clone(),
        }
    }
}

/// Made by [`TimeoutLayer`].
#[derive(Clone)]
pub(super) struct Timeouts<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, Req> Service<Req> for Timeouts<S>
where
    S: Service<Req>,
    S::Error: From<Elapsed>,
    Req: KvRequest + HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future, AsError>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        let layer = if request.is_durable() {
            &self.layer.durable
        } else {
            &self.layer.other
        };
        // One inner service, so that the one that is ready is called.
        layer.layer(&mut self.inner).call(request)
    }
}
