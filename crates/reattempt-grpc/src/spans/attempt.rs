//! `AttemptSpanLayer`: a span around each attempt.

use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use reattempt::{AttemptKind, CallContext, HasCallContext, StackCheck};
use tower_layer::Layer;
use tower_service::Service;
use tracing::field::Empty;

use super::{OpenSpan, dotted};
use crate::follow::{FollowedBody, FollowedFuture};
use crate::previous_attempts::previous_attempts;
use crate::{BodyErrorCode, ByKnownError, ErrorCodes};

/// Opens a span `Attempt.<service>.<method>` (A72) around each attempt.
#[derive(Clone, Debug)]
pub struct AttemptSpanLayer<C = ByKnownError, R = ByKnownError> {
    errors: ErrorCodes<C, R>,
    order: StackCheck,
}

impl AttemptSpanLayer {
    /// Maps errors by [`ByKnownError`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            errors: ErrorCodes::new(),
            order: StackCheck::default(),
        }
    }
}

impl Default for AttemptSpanLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, R> AttemptSpanLayer<C, R> {
    /// Sets how errors are mapped to codes; by default [`ByKnownError`] for both.
    #[must_use]
    pub fn errors<N, M>(self, errors: ErrorCodes<N, M>) -> AttemptSpanLayer<N, M> {
        AttemptSpanLayer {
            errors,
            order: self.order,
        }
    }
}

impl<S, C: Clone, R: Clone> Layer<S> for AttemptSpanLayer<C, R> {
    type Service = AttemptSpan<S, C, R>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptSpan {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`AttemptSpanLayer`] creates.
#[derive(Clone, Debug)]
pub struct AttemptSpan<S, C = ByKnownError, R = ByKnownError> {
    inner: S,
    layer: AttemptSpanLayer<C, R>,
}

/// The future of [`AttemptSpan`].
pub type AttemptSpanFuture<F, C = ByKnownError, R = ByKnownError> =
    FollowedFuture<F, OpenSpan, C, R>;

/// The response stream of [`AttemptSpan`].
pub type AttemptSpanBody<B, R = ByKnownError> = FollowedBody<B, OpenSpan, R>;

impl<S, C, R, B, ResBody> Service<Request<B>> for AttemptSpan<S, C, R>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
    C: BodyErrorCode<S::Error> + Clone,
    R: Clone,
    ResBody: Body,
{
    type Response = Response<AttemptSpanBody<ResBody, R>>;
    type Error = S::Error;
    type Future = AttemptSpanFuture<S::Future, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        let context = request.context();
        layer.order.of_each_attempt("AttemptSpanLayer", context);
        let span = tracing::info_span!(
            target: "reattempt",
            "Attempt",
            otel.name = format!("Attempt.{}", dotted(request.uri().path())),
            otel.status_code = Empty,
            otel.status_description = Empty,
            // Of an unsigned number the bridge to OpenTelemetry makes a text.
            "previous-rpc-attempts" = i64::from(previous_attempts(&request, context)),
            "transparent-retry" =
                context.is_some_and(|context| context.kind() == AttemptKind::Transparent),
        );
        let open = OpenSpan::new(span, context.and_then(CallContext::deadline));
        let inner = open.span.in_scope(|| self.inner.call(request));
        FollowedFuture::new(inner, Some(open), layer.errors.clone())
    }
}
