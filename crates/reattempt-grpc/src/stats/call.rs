//! `CallStatsLayer`: the duration of calls, and their retry metrics.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use reattempt::{CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

use super::GrpcStats;
use super::progress::Progress;
use crate::follow::{Follow, FollowedBody, FollowedFuture};
use crate::{BodyErrorCode, ByKnownError, Code, ErrorCodes};

/// Records the metrics of a call at its end: see [`GrpcStats::call_layer`].
#[derive(Clone, Debug)]
pub struct CallStatsLayer<C = ByKnownError, R = ByKnownError> {
    stats: GrpcStats,
    errors: ErrorCodes<C, R>,
    order: StackCheck,
}

impl CallStatsLayer {
    pub(super) fn new(stats: GrpcStats) -> Self {
        Self {
            stats,
            errors: ErrorCodes::new(),
            order: StackCheck::default(),
        }
    }
}

impl<C, R> CallStatsLayer<C, R> {
    /// Sets how errors are mapped to codes; by default [`ByKnownError`] for both.
    #[must_use]
    pub fn errors<N, M>(self, errors: ErrorCodes<N, M>) -> CallStatsLayer<N, M> {
        CallStatsLayer {
            stats: self.stats,
            errors,
            order: self.order,
        }
    }
}

impl<S, C: Clone, R: Clone> Layer<S> for CallStatsLayer<C, R> {
    type Service = CallStats<S, C, R>;

    fn layer(&self, inner: S) -> Self::Service {
        CallStats {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`CallStatsLayer`] creates.
#[derive(Clone, Debug)]
pub struct CallStats<S, C = ByKnownError, R = ByKnownError> {
    inner: S,
    layer: CallStatsLayer<C, R>,
}

/// The future of [`CallStats`].
pub type CallStatsFuture<F, C = ByKnownError, R = ByKnownError> = FollowedFuture<F, OpenCall, C, R>;

/// The response stream of [`CallStats`].
pub type CallStatsBody<B, R = ByKnownError> = FollowedBody<B, OpenCall, R>;

impl<S, C, R, B, ResBody> Service<Request<B>> for CallStats<S, C, R>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
    C: BodyErrorCode<S::Error> + Clone,
    R: Clone,
    ResBody: Body,
{
    type Response = Response<CallStatsBody<ResBody, R>>;
    type Error = S::Error;
    type Future = CallStatsFuture<S::Future, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        if request.context().is_some_and(CallContext::is_claimed) {
            layer.order.warn(
                "CallStatsLayer",
                "is inside the recovery layer, so that each attempt counts as a call: put it above",
            );
        }
        let progress = Progress::begin(&layer.stats, request.uri().path());
        request.context_mut().set_data(Arc::clone(&progress));
        let call = OpenCall(Some(progress));
        let inner = self.inner.call(request);
        FollowedFuture::new(inner, Some(call), layer.errors.clone())
    }
}

/// A call whose status is not known yet. If dropped: CANCELLED, because the caller dropped it.
#[derive(Debug)]
pub struct OpenCall(Option<Arc<Progress>>);

impl OpenCall {
    fn over(&mut self, code: Code) {
        if let Some(progress) = self.0.take() {
            progress.ended(code);
        }
    }
}

impl Follow for OpenCall {
    fn closed(mut self, code: Code) {
        self.over(code);
    }

    fn ended(mut self, code: Code) {
        self.over(code);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.over(Code::Cancelled);
    }
}
