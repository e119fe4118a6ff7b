//! `AttemptHeadersLayer`: describes each attempt in its headers, and obeys a response that forbids
//! further ones.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use reattempt::StackCheck;
use reattempt::{
    AttemptKind, AttemptReporter, CallContext, CallDeadline, HasCallContext, Recovery,
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::AmzSdkRequest;
use super::headers::{
    DO_NOT_RETRY, ENVOY_RATELIMITED, EXPECTED_TIMEOUT, RETRY_REASON, set_attempt_count,
    set_expected_timeout, set_retry_reason,
};
use crate::wall_clock;

/// The value of [`RETRY_REASON`] for an attempt that is sent before any failure.
const HEDGE: &str = "HEDGE";

/// Sets the headers of each attempt (its number, its reason, the time left), replacing those of the
/// caller or of a forwarded request, and forbids another attempt if the response has
/// [`DO_NOT_RETRY`]. Put it below the recovery layer and below the deadline of the attempts. An
/// `amz-sdk-request` from the caller or its SDK is passed unchanged, unless
/// [`amz_sdk_request`](AttemptHeadersLayer::amz_sdk_request) is on.
#[derive(Clone, Copy, Debug)]
pub struct AttemptHeadersLayer {
    amz: bool,
    heeds_envoy: bool,
    max_attempts: Option<u32>,
    reserve: Duration,
    wall_clock: fn() -> SystemTime,
}

impl AttemptHeadersLayer {
    /// Sets all headers except `amz-sdk-request`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            amz: false,
            heeds_envoy: false,
            max_attempts: None,
            reserve: Duration::ZERO,
            wall_clock: wall_clock::SYSTEM,
        }
    }

    /// Also sets `amz-sdk-request`: attempt, maximum, and the deadline as an instant.
    #[must_use]
    pub const fn amz_sdk_request(mut self) -> Self {
        self.amz = true;
        self
    }

    /// The maximum in `amz-sdk-request` if neither the call nor its route has a strategy or hedging
    /// of its own, which knows one. The strategy of the recovery layer above is not visible here.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Announces this much less time than is left, so that the response of the server, which stops
    /// at the announced time, arrives before this attempt's own deadline: set it to about one round
    /// trip. Zero by default.
    #[must_use]
    pub const fn reserve(mut self, reserve: Duration) -> Self {
        self.reserve = reserve;
        self
    }

    /// Treats [`ENVOY_RATELIMITED`] in a response as "do not retry", as Envoy itself does. By
    /// default only the status counts: after a 429 with `Retry-After` the next attempt may pass the
    /// rate limit.
    #[must_use]
    pub const fn heed_envoy_ratelimited(mut self) -> Self {
        self.heeds_envoy = true;
        self
    }

    /// Uses this clock for instants.
    #[must_use]
    pub const fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.wall_clock = now;
        self
    }
}

impl Default for AttemptHeadersLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for AttemptHeadersLayer {
    type Service = AttemptHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptHeaders {
            inner,
            settings: *self,
            order: StackCheck::default(),
        }
    }
}

/// Created by [`AttemptHeadersLayer`].
#[derive(Clone, Debug)]
pub struct AttemptHeaders<S> {
    inner: S,
    settings: AttemptHeadersLayer,
    order: StackCheck,
}

impl<S, B, C> Service<Request<B>> for AttemptHeaders<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = AttemptHeadersFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.order
            .inside_recovery("AttemptHeadersLayer", request.context());
        let reporter = request.context().map(CallContext::reporter);
        let mut headers = std::mem::take(request.headers_mut());
        let none = CallContext::default();
        // Not of a clone: on a call that a layer passed through it would begin another one.
        let context = request.context().unwrap_or(&none);
        self.settings.write(context, &mut headers);
        *request.headers_mut() = headers;
        AttemptHeadersFuture {
            inner: self.inner.call(request),
            reporter: reporter.unwrap_or_default(),
            heeds_envoy: self.settings.heeds_envoy,
        }
    }
}

impl AttemptHeadersLayer {
    fn write(&self, context: &CallContext, headers: &mut HeaderMap) {
        let attempt = context.attempt().max(1);
        set_attempt_count(headers, attempt);
        match (context.kind(), attempt) {
            (_, 1) => {
                headers.remove(RETRY_REASON);
            }
            (kind, _) => {
                let info = context.info();
                let failed = info.records().rev().find_map(|record| record.failure);
                let reason = failed.map(|failure| failure.reason.to_string());
                let unknown = if kind == AttemptKind::Hedge {
                    HEDGE
                } else {
                    ""
                };
                set_retry_reason(headers, reason.as_deref().unwrap_or(unknown));
            }
        }
        let left = |deadline: CallDeadline| deadline.left(Instant::now().into_std());
        let left = context
            .deadline()
            .map(|deadline| left(deadline).saturating_sub(self.reserve));
        match left {
            Some(left) => set_expected_timeout(headers, left),
            // A timeout announced by another hop has no meaning any more.
            None => {
                headers.remove(EXPECTED_TIMEOUT);
            }
        }
        if self.amz {
            let mut said = AmzSdkRequest::new();
            said.ttl = left.and_then(|left| (self.wall_clock)().checked_add(left));
            said.attempt = Some(attempt);
            said.max = most(context, self.max_attempts);
            said.write(headers);
        }
    }
}

/// The maximum of attempts of the call's own strategy or that of its route; `otherwise` if neither
/// has one.
fn most(context: &CallContext, otherwise: Option<u32>) -> Option<u32> {
    if let Some(strategy) = context.strategy() {
        return strategy.max_attempts();
    }
    match context.policy().map(|policy| policy.recovery()) {
        Some(Recovery::Retry(strategy)) => strategy.max_attempts(),
        Some(Recovery::Hedge(hedge)) => Some(hedge.max_attempts()),
        Some(Recovery::None) => Some(1),
        _ => otherwise,
    }
}

pin_project! {
    /// The future of [`AttemptHeaders`].
    #[derive(Debug)]
    pub struct AttemptHeadersFuture<F> {
        #[pin]
        inner: F,
        reporter: AttemptReporter,
        heeds_envoy: bool,
    }
}

impl<F, C, E> Future for AttemptHeadersFuture<F>
where
    F: Future<Output = Result<Response<C>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        if let Ok(response) = &outcome {
            let has = |name| response.headers().contains_key(name);
            if has(DO_NOT_RETRY) || *this.heeds_envoy && has(ENVOY_RATELIMITED) {
                this.reporter.forbid();
            }
        }
        Poll::Ready(outcome)
    }
}
