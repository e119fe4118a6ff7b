//! The settings of a gRPC client, and the defaults with their sources.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reattempt::observe::with_observer;
use reattempt::{DeadlineLayer, HedgeLayer, Observer, RetryLayer};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_http::call::{ExtendContextLayer, InlineContextLayer, ReplayCallBodyLayer};
use tower_layer::{Identity, Layer, Stack};

use super::{AttemptHead, Innermost, PerAttempt, PerCall, TonicBody};
use crate::message_limit::CallMessageLimitLayer;
use crate::spans::{AttemptSpanLayer, CallSpanLayer};
use crate::stats::{AttemptStatsLayer, CallStatsLayer, GrpcStats};
use crate::{
    AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, GrpcTimeout, MessageLimitLayer,
    TonicStatusLayer, WaitForReadyLayer,
};

/// gRPC A6 for a tonic client: the policies of a service config.
///
/// | setting | default | source |
/// | --- | --- | --- |
/// | retries and hedges | the method's policy; none without one | A6, Service Config |
/// | transparent retries | on | A6, Transparent Retries |
/// | throttle | the config's `retryThrottling` | A6, Throttling |
/// | deadline | the earlier of the config's `timeout` and the caller's `grpc-timeout`; it ends the response's stream too | the service config; gRPC over HTTP/2, `grpc-timeout` |
/// | pushback | `grpc-retry-pushback-ms` | A6, Pushback |
/// | metadata | `grpc-previous-rpc-attempts` | A6, Exposed Retry Metadata |
/// | `waitForReady`, message limits | the method's | the service config |
/// | bytes of a request kept | 256 KiB a call, 16 MiB in all; a larger request is sent once | A6, Memory Management |
/// | status of a call that failed in the channel | the code of its record | the gRPC status codes |
/// | metrics, spans | none: [`stats`](Self::stats), [`spans`](Self::spans) | A66 and A96, A72 |
///
/// `C` and `A` are the layers of telemetry around each call and each attempt. Layers of your own go
/// above this one for calls, and below it for attempts (authentication, for example).
///
/// The transport takes `Request<tonic::body::Body>`: a tonic channel, tonic's or tower's balancer,
/// [`Backends`](reattempt::Backends), [`RoundRobin`](reattempt::RoundRobin). Its error is one that
/// reattempt-http reads: tonic's, or a boxed one, such as that of tower's `Buffer`. Above a service
/// with an error type of your own put `.map_err(AnyTransportError::new)` (of reattempt-http), not
/// `BoxError::from`, with which the client cannot be moved into a task. Box body errors of your own
/// too: for statistics, spans and throttle an unknown one has the code UNKNOWN.
///
/// ```
/// use reattempt_grpc::GrpcClientLayer;
/// use reattempt_grpc::service_config::{LiveServiceConfig, Options};
/// use reattempt_grpc::stats::GrpcStats;
///
/// // Replaced while calls are in progress: `live.update(text)`.
/// let live = LiveServiceConfig::with_default("{}", Options::new())?;
/// let stats = GrpcStats::new((), "static:///shop");
/// let layer = GrpcClientLayer::new(live.clone()).stats(&stats).spans();
/// # let _ = layer;
/// # Ok::<(), reattempt::config::Faults>(())
/// ```
#[derive(Clone)]
pub struct GrpcClientLayer<R, C = Identity, A = Identity> {
    routes: InlineContextLayer<R>,
    deadline: DeadlineLayer<AsGrpcStatus>,
    messages: CallMessageLimitLayer,
    replay: ReplayCallBodyLayer,
    pub(super) classifier: GrpcClassifier,
    transparent: bool,
    service: Option<Cow<'static, str>>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    wait: WaitForReadyLayer,
    of_call: C,
    of_attempt: A,
}

impl<R> GrpcClientLayer<R> {
    /// The policies of this service config: a `ServiceConfig`, a `LiveServiceConfig`, or any
    /// [`Route`](reattempt::Route).
    #[must_use]
    pub fn new(config: R) -> Self {
        Self {
            routes: InlineContextLayer::new(config),
            deadline: DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus),
            messages: CallMessageLimitLayer::default(),
            replay: ReplayCallBodyLayer::default(),
            classifier: GrpcClassifier::new(),
            transparent: true,
            service: None,
            observer: None,
            wait: WaitForReadyLayer::new(),
            of_call: Identity::new(),
            of_attempt: Identity::new(),
        }
    }
}

impl<R, C, A> GrpcClientLayer<R, C, A> {
    /// Limits every call, also where neither the config nor the caller does. The earliest limit
    /// applies, so this one should be longer than every `timeout` of the config and every stream.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = DeadlineLayer::new(timeout).on_elapsed(AsGrpcStatus);
        self
    }

    /// Sets how failures of the transport are read.
    #[must_use]
    pub const fn classifier(mut self, classifier: GrpcClassifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// Enables or disables transparent retries (A6); enabled by default.
    #[must_use]
    pub const fn transparent(mut self, on: bool) -> Self {
        self.transparent = on;
        self
    }

    /// Names the server or channel that the calls are for, as `host` in the log of calls whose
    /// requests name no host; none by default. Those of tonic's generated clients name none, except
    /// with an origin.
    #[must_use]
    pub fn named(mut self, service: impl Into<Cow<'static, str>>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Limits message lengths, also where the config does not.
    #[must_use]
    pub const fn message_limits(mut self, limits: MessageLimitLayer) -> Self {
        self.messages = CallMessageLimitLayer(limits);
        self
    }

    /// Sets how much of a request is kept for further attempts.
    #[must_use]
    pub fn bodies(mut self, bodies: ReplayBodyLayer) -> Self {
        self.replay = ReplayCallBodyLayer::new(bodies);
        self
    }

    /// Sets how calls with `waitForReady` wait.
    #[must_use]
    pub fn wait_for_ready(mut self, wait: WaitForReadyLayer) -> Self {
        self.wait = wait;
        self
    }

    /// Adds an observer of every decision; the log stays.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }

    /// Counts and measures calls, attempts and retries (A66, A96).
    #[must_use]
    pub fn stats(
        self,
        stats: &GrpcStats,
    ) -> GrpcClientLayer<R, Stack<C, CallStatsLayer>, Stack<A, AttemptStatsLayer>> {
        let layer = self.observer(stats.observer());
        layer.telemetry(stats.call_layer(), stats.attempt_layer())
    }

    /// Adds a span for each call and each attempt (A72).
    #[must_use]
    pub fn spans(self) -> GrpcClientLayer<R, Stack<C, CallSpanLayer>, Stack<A, AttemptSpanLayer>> {
        self.telemetry(CallSpanLayer::new(), AttemptSpanLayer::new())
    }

    /// Puts these layers outside of those that were added before.
    pub(super) fn telemetry<D, B>(
        self,
        call: D,
        attempt: B,
    ) -> GrpcClientLayer<R, Stack<C, D>, Stack<A, B>> {
        GrpcClientLayer {
            routes: self.routes,
            deadline: self.deadline,
            messages: self.messages,
            replay: self.replay,
            classifier: self.classifier,
            transparent: self.transparent,
            service: self.service,
            observer: self.observer,
            wait: self.wait,
            of_call: Stack::new(self.of_call, call),
            of_attempt: Stack::new(self.of_attempt, attempt),
        }
    }
}

impl<R, C, A> fmt::Debug for GrpcClientLayer<R, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcClientLayer")
            .field("deadline", &self.deadline)
            .field("messages", &self.messages)
            .field("replay", &self.replay)
            .field("classifier", &self.classifier)
            .field("transparent", &self.transparent)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl<S, R, C, A> Layer<S> for GrpcClientLayer<R, C, A>
where
    R: Clone,
    A: Layer<Innermost<S>>,
    C: Layer<PerCall<PerAttempt<Innermost<S>, A>, R>>,
{
    type Service = C::Service;

    fn layer(&self, inner: S) -> Self::Service {
        let mut retry = RetryLayer::by_policy(self.classifier).transparent(self.transparent);
        let mut hedge = HedgeLayer::by_policy(self.classifier).transparent(self.transparent);
        if let Some(service) = &self.service {
            retry = retry.named(service.clone());
            hedge = hedge.named(service.clone());
        }
        if let Some(observer) = &self.observer {
            retry = retry.observer(Arc::clone(observer));
            hedge = hedge.observer(Arc::clone(observer));
        }
        let outcome = GrpcOutcomeLayer::new().retryable(self.classifier.retryable_codes());
        let attempt = outcome.layer(TonicBody::new(inner));
        let attempt = AttemptHead::new(self.of_attempt.layer(attempt));
        let attempt = ExtendContextLayer.layer(self.wait.layer(attempt));
        let call = self
            .replay
            .layer(retry.layer(hedge.unclaimed().layer(attempt)));
        let body = DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus);
        let call = self.deadline.layer(body.layer(self.messages.layer(call)));
        let call = self.routes.layer(GrpcTimeout::above_deadline(call));
        self.of_call.layer(TonicStatusLayer.layer(call))
    }
}
