//! The layers that take a context out of the extensions, and put it back.

use std::fmt;
use std::task::{Context, Poll};

use http::Request;
use reattempt::{HasCallContext, Route, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

use super::HttpCall;

/// Attaches the policy of the request's route, as a `RouteLayer` does, and carries the context
/// inline from here on: the layers below get an [`HttpCall`]. Above the `DeadlineLayer` that is to
/// enforce the policy's timeout.
#[derive(Clone, Debug)]
pub struct InlineContextLayer<R> {
    routes: R,
    order: StackCheck,
}

impl<R> InlineContextLayer<R> {
    /// With the policies of these routes; [`NoRoutes`](crate::client::NoRoutes) has none.
    #[must_use]
    pub fn new(routes: R) -> Self {
        Self {
            routes,
            order: StackCheck::default(),
        }
    }
}

impl<S, R: Clone> Layer<S> for InlineContextLayer<R> {
    type Service = InlineContext<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        InlineContext {
            inner,
            routes: self.routes.clone(),
            order: self.order.clone(),
        }
    }
}

/// Created by [`InlineContextLayer`].
#[derive(Clone)]
pub struct InlineContext<S, R> {
    inner: S,
    routes: R,
    order: StackCheck,
}

impl<S, R> fmt::Debug for InlineContext<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineContext").finish_non_exhaustive()
    }
}

impl<S, R, B> Service<Request<B>> for InlineContext<S, R>
where
    S: Service<HttpCall<B>>,
    R: Route<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let policy = self.routes.route(&request);
        let mut call = HttpCall::new(request);
        if let Some(policy) = policy {
            let context = call.context_mut();
            self.order.outside_recovery("InlineContextLayer", context);
            context.attach_policy(policy);
        }
        self.inner.call(call)
    }
}

/// Puts the context into the extensions of the request: for the layers of each attempt, and for
/// the transport.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtendContextLayer;

impl<S> Layer<S> for ExtendContextLayer {
    type Service = ExtendContext<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ExtendContext { inner }
    }
}

/// Created by [`ExtendContextLayer`].
#[derive(Clone, Copy, Debug)]
pub struct ExtendContext<S> {
    inner: S,
}

impl<S, B> Service<HttpCall<B>> for ExtendContext<S>
where
    S: Service<Request<B>>,
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
        self.inner.call(request.into_request())
    }
}
