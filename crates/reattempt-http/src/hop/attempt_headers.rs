//! `AttemptHeadersLayer`: says with each attempt which one it is, and heeds an answer that wants no
//! other.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use reattempt::order::InsideRecovery;
use reattempt::{Annotated, AttemptKind, CallContext, Recovery, Reporter, TimeLimit};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::AmzSdkRequest;
use super::headers::{
    DO_NOT_RETRY, ENVOY_RATELIMITED, EXPECTED_TIMEOUT, RETRY_REASON, set_attempt_count,
    set_expected_timeout, set_retry_reason,
};

/// What [`RETRY_REASON`] says of an attempt that is sent ahead of any failure.
const HEDGE: &str = "HEDGE";

/// Writes the headers of each attempt (its number, its reason, the time that is left), in place of
/// what the caller or a request that is forwarded had there, and forbids another attempt where the
/// answer has [`DO_NOT_RETRY`]. Put it below the recovery layer and below the deadline of the
/// attempts. An `amz-sdk-request` that the caller or its SDK wrote passes as it is, unless
/// [`amz_sdk_request`](AttemptHeadersLayer::amz_sdk_request) is on.
#[derive(Clone, Copy, Debug)]
pub struct AttemptHeadersLayer {
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    amz: bool,
    heeds_envoy: bool,
    max_attempts: Option<u32>,
    reserve: Duration,
    wall_clock: fn() -> SystemTime,
}

impl AttemptHeadersLayer {
    /// Writes all headers but `amz-sdk-request`.
    #[must_use]
    pub const fn new() -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "the header is wall-clock time; `wall_clock` sets another clock"
        )]
        let wall_clock: fn() -> SystemTime = SystemTime::now;
        Self {
            settings: Settings {
                amz: false,
                heeds_envoy: false,
                max_attempts: None,
                reserve: Duration::ZERO,
                wall_clock,
            },
        }
    }

    /// Writes `amz-sdk-request` too: attempt, maximum, and the time limit as an instant.
    #[must_use]
    pub const fn amz_sdk_request(mut self) -> Self {
        self.settings.amz = true;
        self
    }

    /// The maximum that `amz-sdk-request` says where neither the call nor its route has a strategy
    /// or hedge of its own, which knows one. The recovery layer above does not tell its own.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = Some(attempts);
        self
    }

    /// Says so much less time than there is, so that the word of the service behind, which ends its
    /// work then, is here before this attempt's own time is over: as much as a round trip takes.
    /// Nothing by default.
    #[must_use]
    pub const fn reserve(mut self, reserve: Duration) -> Self {
        self.settings.reserve = reserve;
        self
    }

    /// Takes [`ENVOY_RATELIMITED`] in an answer for "do not retry" too, as Envoy itself does.
    /// Otherwise it is the status that counts: after a 429 with `Retry-After` a rate limit may well
    /// let the next attempt through.
    #[must_use]
    pub const fn heed_envoy_ratelimited(mut self) -> Self {
        self.settings.heeds_envoy = true;
        self
    }

    /// Says instants by this clock.
    #[must_use]
    pub const fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.settings.wall_clock = now;
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
            settings: self.settings,
            order: InsideRecovery::default(),
        }
    }
}

/// Made by [`AttemptHeadersLayer`].
#[derive(Clone, Debug)]
pub struct AttemptHeaders<S> {
    inner: S,
    settings: Settings,
    order: InsideRecovery,
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
        self.order.check("AttemptHeadersLayer", request.context());
        let context = request.context().cloned().unwrap_or_default();
        self.settings.write(&context, request.headers_mut());
        AttemptHeadersFuture {
            inner: self.inner.call(request),
            reporter: context.reporter(),
            heeds_envoy: self.settings.heeds_envoy,
        }
    }
}

impl Settings {
    fn write(&self, context: &CallContext, headers: &mut HeaderMap) {
        let attempt = context.attempt().max(1);
        set_attempt_count(headers, attempt);
        match (context.kind(), attempt) {
            (_, 1) => {
                headers.remove(RETRY_REASON);
            }
            (AttemptKind::Hedge, _) => set_retry_reason(headers, HEDGE),
            _ => {
                let info = context.info();
                let failed = info.records().rev().find_map(|record| record.failure);
                let reason = failed.map(|failure| failure.reason.to_string());
                set_retry_reason(headers, reason.as_deref().unwrap_or_default());
            }
        }
        let left = |limit: TimeLimit| limit.left(Instant::now().into_std());
        let left = context
            .limit()
            .map(|limit| left(limit).saturating_sub(self.reserve));
        match left {
            Some(left) => set_expected_timeout(headers, left),
            // What another hop said of its own time is over by now.
            None => {
                headers.remove(EXPECTED_TIMEOUT);
            }
        }
        if self.amz {
            let mut said = AmzSdkRequest::new();
            said.ttl = left.and_then(|left| (self.wall_clock)().checked_add(left));
            said.attempt = Some(attempt);
            said.max = most(context).or(self.max_attempts);
            said.write(headers);
        }
    }
}

/// The most attempts of the call, where its own strategy or that of its route knows.
fn most(context: &CallContext) -> Option<u32> {
    if let Some(strategy) = context.strategy() {
        return strategy.max_attempts();
    }
    match context.policy()?.get_recovery() {
        Recovery::Retry(strategy) => strategy.max_attempts(),
        Recovery::Hedge(hedge) => Some(hedge.max_attempts()),
        Recovery::None => Some(1),
        Recovery::Default => None,
    }
}

pin_project! {
    /// The future of [`AttemptHeaders`].
    #[derive(Debug)]
    pub struct AttemptHeadersFuture<F> {
        #[pin]
        inner: F,
        reporter: Reporter,
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
