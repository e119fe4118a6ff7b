//! `CallSpanLayer`: a span around each call.

use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use reattempt::{CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;
use tracing::field::Empty;

use super::{OpenSpan, dotted};
use crate::follow::{FollowedBody, FollowedFuture};
use crate::{BodyErrorCode, ByKnownError, ErrorCodes};

/// Opens a span `Sent.<service>.<method>` (A72) around each call.
#[derive(Clone, Debug)]
pub struct CallSpanLayer<C = ByKnownError, R = ByKnownError> {
    errors: ErrorCodes<C, R>,
    order: StackCheck,
}

impl CallSpanLayer {
    /// Maps errors by [`ByKnownError`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            errors: ErrorCodes::new(),
            order: StackCheck::default(),
        }
    }
}

impl Default for CallSpanLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, R> CallSpanLayer<C, R> {
    /// Sets how errors are mapped to codes; by default [`ByKnownError`] for both.
    #[must_use]
    pub fn errors<N, M>(self, errors: ErrorCodes<N, M>) -> CallSpanLayer<N, M> {
        CallSpanLayer {
            errors,
            order: self.order,
        }
    }
}

impl<S, C: Clone, R: Clone> Layer<S> for CallSpanLayer<C, R> {
    type Service = CallSpan<S, C, R>;

    fn layer(&self, inner: S) -> Self::Service {
        CallSpan {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`CallSpanLayer`] creates.
#[derive(Clone, Debug)]
pub struct CallSpan<S, C = ByKnownError, R = ByKnownError> {
    inner: S,
    layer: CallSpanLayer<C, R>,
}

/// The future of [`CallSpan`].
pub type CallSpanFuture<F, C = ByKnownError, R = ByKnownError> = FollowedFuture<F, OpenSpan, C, R>;

/// The response stream of [`CallSpan`].
pub type CallSpanBody<B, R = ByKnownError> = FollowedBody<B, OpenSpan, R>;

impl<S, C, R, B, ResBody> Service<Request<B>> for CallSpan<S, C, R>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
    C: BodyErrorCode<S::Error> + Clone,
    R: Clone,
    ResBody: Body,
{
    type Response = Response<CallSpanBody<ResBody, R>>;
    type Error = S::Error;
    type Future = CallSpanFuture<S::Future, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        if request.context().is_some_and(CallContext::is_claimed) {
            layer.order.warn(
                "CallSpanLayer",
                "is inside the recovery layer, so that each attempt looks like a call: put it above",
            );
        }
        let span = tracing::info_span!(
            target: "reattempt",
            "Sent",
            otel.name = format!("Sent.{}", dotted(request.uri().path())),
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        let open = OpenSpan::new(span, None);
        let inner = open.span.in_scope(|| self.inner.call(request));
        FollowedFuture::new(inner, Some(open), layer.errors.clone())
    }
}
