//! `AttemptStatsLayer`: metrics of each attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Buf;
use http::{Request, Response};
use http_body::Body;
use reattempt::{AttemptKind, CallContext, CallDeadline, HasCallContext, StackCheck};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::message_sizes::MessageSizes;
use super::methods::Method;
use super::observer::stream_failed;
use super::progress::Progress;
use super::{GrpcStats, Instrument, SentBody};
use crate::follow::{Follow, FollowedBody, FollowedFuture, code_of_dropped};
use crate::{BodyErrorCode, ByKnownError, Code, ErrorCodes};

/// Records each attempt: see [`GrpcStats::attempt_layer`].
#[derive(Clone, Debug)]
pub struct AttemptStatsLayer<C = ByKnownError, R = ByKnownError> {
    stats: GrpcStats,
    errors: ErrorCodes<C, R>,
    order: StackCheck,
}

impl AttemptStatsLayer {
    pub(super) fn new(stats: GrpcStats) -> Self {
        Self {
            stats,
            errors: ErrorCodes::new(),
            order: StackCheck::default(),
        }
    }
}

impl<C, R> AttemptStatsLayer<C, R> {
    /// Sets how errors are mapped to codes; by default [`ByKnownError`] for both.
    #[must_use]
    pub fn errors<N, M>(self, errors: ErrorCodes<N, M>) -> AttemptStatsLayer<N, M> {
        AttemptStatsLayer {
            stats: self.stats,
            errors,
            order: self.order,
        }
    }

    fn begin<B>(&self, request: &Request<B>, sent: Arc<AtomicU64>) -> OpenAttempt {
        let context = request.context();
        self.order.of_each_attempt("AttemptStatsLayer", context);
        let progress = context
            .and_then(|context| Progress::of(&self.stats, context))
            .cloned();
        let method = match &progress {
            Some(progress) => Arc::clone(&progress.method),
            None => self.stats.0.methods.of(request.uri().path()),
        };
        let began = Instant::now();
        let number = context.map_or(0, CallContext::attempt);
        if let Some(progress) = &progress {
            if !progress.attempt_began(began) && number > 1 {
                self.order.warn(
                    "GrpcStats",
                    "receives no retry reports, so it counts none: set GrpcStats::observer on the recovery layer",
                );
            }
        }
        self.stats.0.add(Instrument::AttemptStarted, 1, &method);
        OpenAttempt(Some(Attempt {
            stats: self.stats.clone(),
            progress,
            method,
            kind: context.map_or(AttemptKind::Initial, CallContext::kind),
            deadline: context.and_then(CallContext::deadline),
            began,
            sent,
            received: 0,
            sizes: MessageSizes::default(),
            is_open: false,
        }))
    }
}

impl<S, C: Clone, R: Clone> Layer<S> for AttemptStatsLayer<C, R> {
    type Service = AttemptStats<S, C, R>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptStats {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service that [`AttemptStatsLayer`] creates.
#[derive(Clone, Debug)]
pub struct AttemptStats<S, C = ByKnownError, R = ByKnownError> {
    inner: S,
    layer: AttemptStatsLayer<C, R>,
}

/// The future of [`AttemptStats`].
pub type AttemptStatsFuture<F, C = ByKnownError, R = ByKnownError> =
    FollowedFuture<F, OpenAttempt, C, R>;

/// The response stream of [`AttemptStats`].
pub type AttemptStatsBody<B, R = ByKnownError> = FollowedBody<B, OpenAttempt, R>;

impl<S, C, R, B, ResBody> Service<Request<B>> for AttemptStats<S, C, R>
where
    S: Service<Request<SentBody<B>>, Response = Response<ResBody>>,
    C: BodyErrorCode<S::Error> + Clone,
    R: Clone,
    ResBody: Body,
{
    type Response = Response<AttemptStatsBody<ResBody, R>>;
    type Error = S::Error;
    type Future = AttemptStatsFuture<S::Future, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        let sent = Arc::<AtomicU64>::default();
        let attempt = layer.begin(&request, Arc::clone(&sent));
        let inner = self
            .inner
            .call(request.map(|body| SentBody::new(body, sent)));
        FollowedFuture::new(inner, Some(attempt), layer.errors.clone())
    }
}

/// An attempt whose status is not known yet. If dropped: DEADLINE_EXCEEDED if the deadline has
/// passed, else CANCELLED.
#[derive(Debug)]
pub struct OpenAttempt(Option<Attempt>);

#[derive(Debug)]
struct Attempt {
    stats: GrpcStats,
    progress: Option<Arc<Progress>>,
    method: Arc<Method>,
    kind: AttemptKind,
    deadline: Option<CallDeadline>,
    began: Instant,
    sent: Arc<AtomicU64>,
    received: u64,
    sizes: MessageSizes,
    /// The head committed the call, so the recovery layer does not see the status.
    is_open: bool,
}

impl Attempt {
    fn over(&self, code: Code) {
        let now = Instant::now();
        let sent = self.sent.load(Ordering::Relaxed);
        for (instrument, value) in [
            (
                Instrument::AttemptDuration,
                now.saturating_duration_since(self.began).as_secs_f64(),
            ),
            // Exact up to 8 PiB.
            (Instrument::AttemptSent, sent as f64),
            (Instrument::AttemptReceived, self.received as f64),
        ] {
            let stats = &self.stats.0;
            stats.record(instrument, value, &self.method, Some(code));
        }
        if let Some(progress) = &self.progress {
            progress.attempt_ended(now);
        }
    }
}

impl OpenAttempt {
    fn end(&mut self, code: Code) {
        let Some(attempt) = self.0.take() else {
            return;
        };
        attempt.over(code);
        if attempt.is_open && code != Code::Ok {
            stream_failed(&attempt.method, attempt.kind);
        }
    }
}

impl Follow for OpenAttempt {
    fn opened(&mut self) {
        if let Some(attempt) = &mut self.0 {
            attempt.is_open = true;
        }
    }

    fn received(&mut self, data: &impl Buf) {
        if let Some(attempt) = &mut self.0 {
            attempt.received += attempt.sizes.read(data);
        }
    }

    fn closed(mut self, code: Code) {
        self.end(code);
    }

    fn ended(mut self, code: Code) {
        self.end(code);
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        let Some(attempt) = self.0.take() else {
            return;
        };
        let code = code_of_dropped(attempt.deadline);
        attempt.over(code);
        if attempt.is_open && code == Code::DeadlineExceeded {
            stream_failed(&attempt.method, attempt.kind);
        }
    }
}
