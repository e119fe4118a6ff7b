//! `HedgeUnclaimedLayer`: a hedge below a retry layer, which most calls pass.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{Hedge, HedgeFuture, HedgeLayer};
use crate::{Classify, HasCallContext, Replay};

/// A [`HedgeLayer`] for the place directly below a `RetryLayer`, made by
/// [`HedgeLayer::unclaimed`].
#[derive(Clone, Debug)]
pub struct HedgeUnclaimedLayer<C>(HedgeLayer<C>);

impl<C> HedgeLayer<C> {
    /// For the place directly below a `RetryLayer`. A call on which a layer above acts passes
    /// straight to the service, and has no room for a hedge in its future; the future of any other
    /// call is boxed. The rest is as with this layer.
    #[must_use]
    pub const fn unclaimed(self) -> HedgeUnclaimedLayer<C> {
        HedgeUnclaimedLayer(self)
    }
}

impl<S, C: Clone> Layer<S> for HedgeUnclaimedLayer<C> {
    type Service = HedgeUnclaimed<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        HedgeUnclaimed(self.0.layer(inner))
    }
}

/// Made by [`HedgeUnclaimedLayer`].
#[derive(Debug)]
pub struct HedgeUnclaimed<S, C>(Hedge<S, C>);

impl<S: Clone, C> Clone for HedgeUnclaimed<S, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S, C, Req> Service<Req> for HedgeUnclaimed<S, C>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = HedgeUnclaimedFuture<S, C, Req>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        if let Some(context) = request.context().filter(|context| context.is_claimed()) {
            if self.0.config.policy.is_some() {
                self.0.config.if_never_hedges(context);
            }
            return HedgeUnclaimedFuture {
                state: State::Claimed {
                    future: self.0.inner.call(request),
                },
            };
        }
        HedgeUnclaimedFuture {
            state: State::Unclaimed {
                future: Box::pin(self.0.call(request)),
            },
        }
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<F, H> {
        Claimed { #[pin] future: F },
        Unclaimed { future: Pin<Box<H>> },
    }
}

pin_project! {
    /// The future of [`HedgeUnclaimed`].
    pub struct HedgeUnclaimedFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        #[pin]
        state: State<S::Future, HedgeFuture<S, C, Req>>,
    }
}

impl<S, C, Req> std::fmt::Debug for HedgeUnclaimedFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let acts = matches!(self.state, State::Unclaimed { .. });
        f.debug_struct("HedgeUnclaimedFuture")
            .field("acts", &acts)
            .finish_non_exhaustive()
    }
}

impl<S, C, Req> Future for HedgeUnclaimedFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    type Output = Result<S::Response, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Claimed { future } => future.poll(cx),
            StateProj::Unclaimed { future } => future.as_mut().poll(cx),
        }
    }
}
