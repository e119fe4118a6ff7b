//! The time of a call: a durable write has more.

use std::task::{Context, Poll};
use std::time::Duration;

use reattempt::deadline::{AsError, Deadline, DeadlineFuture};
use reattempt::{DeadlineLayer, Elapsed, HasCallContext};
use tower_layer::Layer;
use tower_service::Service;

use crate::kv::KvRequest;

/// A `DeadlineLayer` that depends on the request.
#[derive(Clone, Debug)]
pub(super) struct TimeoutLayer {
    layer: DeadlineLayer,
    durable: Option<Duration>,
    other: Option<Duration>,
}

impl TimeoutLayer {
    /// A policy's timeout replaces both.
    pub(super) fn new(durable: Duration, other: Duration) -> Self {
        Self {
            layer: DeadlineLayer::no_timeout().unless_policy(),
            durable: Some(durable),
            other: Some(other),
        }
    }

    pub(super) fn none() -> Self {
        Self {
            layer: DeadlineLayer::no_timeout(),
            durable: None,
            other: None,
        }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeouts<S>;

    fn layer(&self, inner: S) -> Timeouts<S> {
        Timeouts {
            inner: self.layer.layer(inner),
            durable: self.durable,
            other: self.other,
        }
    }
}

/// Made by [`TimeoutLayer`].
#[derive(Clone)]
pub(super) struct Timeouts<S> {
    inner: Deadline<S>,
    durable: Option<Duration>,
    other: Option<Duration>,
}

impl<S, Req> Service<Req> for Timeouts<S>
where
    S: Service<Req> + Clone,
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
        let timeout = if request.is_durable() {
            self.durable
        } else {
            self.other
        };
        self.inner.set_timeout(timeout);
        self.inner.call(request)
    }
}
