//! `AttemptTelemetryLayer`: the duration of each attempt, and a span around it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Span;

use super::Metrics;
use super::convention::{self, Convention, Scope};
use super::durations::Labelled;
use super::error_type::ErrorType;
use crate::clock;
use crate::{CallContext, Classify, HasCallContext, StackCheck, Verdict};

/// Measures each attempt and opens a span around it: see [`Metrics::attempts`].
///
/// The span has level INFO, target `reattempt`, and the fields of OpenTelemetry's semantic
/// conventions, of which `http.request.resend_count` is 1 on the first retry and absent before. It
/// has no path and no query, which may hold what does not belong there. Everything below the layer
/// runs inside it. Span and duration end with the response head, the error, or the drop of the
/// attempt: `error.type` is then `timeout` if its deadline has passed, else `cancelled`.
#[derive(Clone, Debug)]
pub struct AttemptTelemetryLayer<D, C> {
    metrics: Metrics,
    convention: D,
    classifier: C,
    order: StackCheck,
}

impl<D, C> AttemptTelemetryLayer<D, C> {
    pub(super) fn new(metrics: Metrics, convention: D, classifier: C) -> Self {
        Self {
            metrics,
            convention,
            classifier,
            order: StackCheck::default(),
        }
    }
}

impl<S, D: Clone, C: Clone> Layer<S> for AttemptTelemetryLayer<D, C> {
    type Service = AttemptTelemetry<S, D, C>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptTelemetry {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`AttemptTelemetryLayer`] creates.
#[derive(Clone, Debug)]
pub struct AttemptTelemetry<S, D, C> {
    inner: S,
    layer: AttemptTelemetryLayer<D, C>,
}

impl<S, D, C, Req> Service<Req> for AttemptTelemetry<S, D, C>
where
    S: Service<Req>,
    D: Convention<Req, S::Response> + Clone,
    C: Classify<S::Response, S::Error> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = AttemptTelemetryFuture<S::Future, D, C, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let layer = &self.layer;
        let context = request.context_mut().share();
        if !context.is_claimed() && context.attempt() == 0 {
            layer.order.warn(
                "AttemptTelemetryLayer",
                "is outside of any recovery layer, so it sees only one attempt: put it below RetryLayer or HedgeLayer",
            );
        }
        let system = layer.convention.system();
        let operation = layer.convention.operation(&request);
        let before = context.attempt().saturating_sub(1);
        let span = convention::span(Scope::Attempt { before }, system, &operation);
        let labelled = layer.metrics.0.durations.began(system, &operation);
        let open = Open {
            metrics: layer.metrics.clone(),
            labelled,
            context,
            began: clock::now(),
            span,
            recorded: false,
        };
        let inner = open.span.in_scope(|| self.inner.call(request));
        AttemptTelemetryFuture {
            inner: Some(inner),
            open: Some(open),
            convention: layer.convention.clone(),
            classifier: layer.classifier.clone(),
            request: std::marker::PhantomData,
        }
    }
}

/// An attempt that has not ended.
struct Open {
    metrics: Metrics,
    labelled: Labelled,
    context: CallContext,
    began: Instant,
    span: Span,
    recorded: bool,
}

impl Open {
    fn ended(mut self, status: Option<i32>, error: Option<ErrorType>) {
        self.over(status, error, clock::now());
    }

    fn over(&mut self, status: Option<i32>, error: Option<ErrorType>, now: Instant) {
        // First: if the meter panics, the drop must not ask it again.
        self.recorded = true;
        self.labelled.status = self.labelled.system.status(status, error);
        self.labelled.error = error;
        let took = now.saturating_duration_since(self.began);
        let inner = &self.metrics.0;
        inner.durations.ended(&*inner.meter, &self.labelled, took);
        convention::end(&self.span, self.labelled.system, status, error);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.recorded {
            return;
        }
        let now = clock::now();
        let error = match self.context.deadline() {
            Some(deadline) if deadline.enforced && deadline.passed(now) => ErrorType::Timeout,
            _ => ErrorType::Cancelled,
        };
        self.over(None, Some(error), now);
    }
}

pin_project! {
    /// The future of [`AttemptTelemetry`].
    pub struct AttemptTelemetryFuture<F, D, C, Req> {
        #[pin]
        inner: Option<F>,
        open: Option<Open>,
        convention: D,
        classifier: C,
        request: std::marker::PhantomData<fn(Req)>,
    }

    impl<F, D, C, Req> PinnedDrop for AttemptTelemetryFuture<F, D, C, Req> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // What happens at the drop of the attempt belongs to its span.
            let _inside = this.open.as_ref().map(|open| open.span.enter());
            this.inner.set(None);
        }
    }
}

impl<F, D, C, Req> fmt::Debug for AttemptTelemetryFuture<F, D, C, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptTelemetryFuture")
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

impl<F, D, C, Req, Res, Err> Future for AttemptTelemetryFuture<F, D, C, Req>
where
    F: Future<Output = Result<Res, Err>>,
    D: Convention<Req, Res>,
    C: Classify<Res, Err>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = {
            let _inside = this.open.as_ref().map(|open| open.span.enter());
            let inner = this.inner.as_pin_mut().expect("there until it is dropped");
            ready!(inner.poll(cx))
        };
        if let Some(open) = this.open.take() {
            let status = outcome.as_ref().ok();
            let status = status.and_then(|response| this.convention.status(response));
            match this.classifier.classify(outcome.as_ref(), &open.context) {
                Verdict::Success | Verdict::Committed => open.ended(status, None),
                Verdict::Fatal(failure) | Verdict::Retry(failure) => {
                    open.ended(status, Some(ErrorType::of(&failure)));
                }
            }
        }
        Poll::Ready(outcome)
    }
}
