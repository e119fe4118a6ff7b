//! The settings of an HTTP client, and the defaults with their sources.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reattempt::admission::{Admission, OfContext};
use reattempt::backends::Balanced;
use reattempt::deadline::AsError;
use reattempt::health::HealthPolicy;
use reattempt::{
    AdmissionLayer, AttemptDeadlineLayer, CircuitBreakerLayer, ClientErrorLayer, DeadlineLayer,
    Observer, PushbackLayer, RetryStrategy, RetryThrottle, Route, RoutePolicy,
};
use tower_layer::Layer;

use super::breakers::{NoBreakers, OriginBreakers};
use super::defaults::{CallDefaultsLayer, ClientThrottle, OriginAdmissions};
use super::recovery::RecoveryLayers;
use super::{HttpClient, WithBreakers};
use crate::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use crate::call::{ExtendContextLayer, InlineContextLayer, ReplayCallBodyLayer};
use crate::retry_after::BeyondCap;
use crate::{HttpClassifier, HttpPushback, IdempotencyKeyLayer, LiveHttpPolicies};

/// Retries for an HTTP client.
///
/// | setting | [`standard`](Self::standard) | source |
/// | --- | --- | --- |
/// | attempts, the first included | 3 | the standard mode of the AWS SDKs |
/// | back-off | full jitter from 100 ms, doubled, at most 20 s | AWS, "Exponential Backoff And Jitter"; the SDKs' 20 s |
/// | which failures | 408, 425, 429, 500, 502, 503, 504, transport errors | [`HttpClassifier`] |
/// | which requests | idempotent ones, or those that were not processed | RFC 9110, section 9.2.2 |
/// | `Retry-After` | honoured up to 30 s, up to 250 ms later; beyond 30 s the response is returned | RFC 9110, section 10.2.3 |
/// | throttle | a token bucket of 100 for each origin, 0.1 for a success; at most [1,024](super::MOST_ORIGINS) origins | the mechanism is gRPC A6's, the figures are this crate's |
/// | time to the response head | 30 s for all attempts together | this crate's choice |
/// | time of the response body | unlimited | watches and downloads |
/// | bytes of a request body kept | 256 KiB a call, 16 MiB in all; a larger body is sent once | [`ReplayBodyLayer`] |
/// | `Idempotency-Key` | makes a request idempotent only where a route's policy says so | [`IdempotencyKeyLayer`] |
///
/// A delay that does not fit before the deadline is not begun: the failure is returned at once.
/// Redirects are not followed.
///
/// What the policy of a route ([`route`](Self::route), [`policies`](Self::policies)) sets overrides
/// these, a time limit also by a longer one, and what it leaves unset is as here. The caller's own
/// settings on the request override both; but a time limit of the caller or of a layer above only
/// shortens. Clones share the throttles and the body budget; so do the services that one layer
/// makes.
///
/// Presets for single APIs: [`google`](Self::google), [`github`](Self::github),
/// [`kubernetes`](Self::kubernetes), [`llm`](Self::llm).
///
/// ```
/// use std::time::Duration;
/// use reattempt::backoff::Backoff;
/// use reattempt::strategy::MaxAttempts;
/// use reattempt_http::HttpClientLayer;
///
/// let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));
/// let layer = HttpClientLayer::standard()
///     .strategy(MaxAttempts::new(5, backoff))
///     .timeout(Duration::from_secs(10))
///     .attempt_timeout(Duration::from_secs(2))
///     .body_timeout(Duration::from_secs(60));
/// # let _ = layer;
/// ```
#[derive(Clone)]
pub struct HttpClientLayer<R = NoRoutes, B = NoBreakers> {
    admission: AdmissionLayer<AsError, OfContext, OriginAdmissions>,
    routes: InlineContextLayer<R>,
    deadline: DeadlineLayer,
    body: DeadlineBodyLayer,
    keys: IdempotencyKeyLayer,
    defaults: CallDefaultsLayer,
    replay: ReplayCallBodyLayer,
    recovery: RecoveryLayers,
    attempt: AttemptDeadlineLayer,
    pushback: HttpPushback,
    breakers: B,
}

/// The routes of a client that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoutes;

impl<Req> Route<Req> for NoRoutes {
    fn route(&self, _: &Req) -> Option<Arc<RoutePolicy>> {
        None
    }
}

const HEAD: Duration = Duration::from_secs(30);
const MOST_RETRY_AFTER: Duration = Duration::from_secs(30);
const RETRY_AFTER_SPREAD: Duration = Duration::from_millis(250);

impl HttpClientLayer {
    /// With the defaults of the [table](Self).
    #[must_use]
    pub fn standard() -> Self {
        Self {
            admission: AdmissionLayer::new(OriginAdmissions::default()),
            routes: InlineContextLayer::new(NoRoutes),
            deadline: DeadlineLayer::new(HEAD).unless_policy(),
            body: DeadlineBodyLayer::after_head(None),
            keys: IdempotencyKeyLayer::new().by_policy(),
            defaults: CallDefaultsLayer::default(),
            replay: ReplayCallBodyLayer::default(),
            recovery: RecoveryLayers::default(),
            attempt: AttemptDeadlineLayer::by_policy(),
            pushback: HttpPushback::new()
                .cap(MOST_RETRY_AFTER, BeyondCap::Stop)
                .spread(RETRY_AFTER_SPREAD),
            breakers: NoBreakers,
        }
    }

    /// The policies of a table, which can be replaced while calls are in progress; other settings
    /// as [`standard`](Self::standard). A route of a table is retried only if it says so, by
    /// `retry` or `hedge`, each with its own attempts and delays. What else a route leaves unset,
    /// statuses and `Idempotency-Key` among it, is as this layer has it. The table's `admission` is
    /// for each origin by itself. For the table of another preset:
    /// `HttpClientLayer::google().route(live)`, and [`admission`](Self::admission) with
    /// [`HttpPolicies::admission`](crate::HttpPolicies::admission).
    ///
    /// ```
    /// use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
    ///
    /// let table = HttpPolicies::parse(r#"{"default": {"retry": {}, "timeout": "5s"}}"#)?;
    /// let live = LiveHttpPolicies::new(table.policies);
    /// let layer = HttpClientLayer::policies(live.clone());
    /// // For calls that start from now on:
    /// live.update(r#"{"default": {"retry": {}, "timeout": "2s"}}"#)?;
    /// # drop(layer);
    /// # Ok::<(), reattempt::config::Faults>(())
    /// ```
    #[must_use]
    pub fn policies(policies: LiveHttpPolicies) -> HttpClientLayer<LiveHttpPolicies> {
        let admission = Arc::clone(policies.load().admission());
        Self::standard().admission(admission).route(policies)
    }
}

impl<R, B> HttpClientLayer<R, B> {
    /// Finds the policy of each request: a closure, [`LiveHttpPolicies`], or any [`Route`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::Request;
    /// use http_body_util::Empty;
    /// use reattempt::RoutePolicy;
    /// use reattempt_http::HttpClientLayer;
    ///
    /// let uploads = Arc::new(RoutePolicy::new("uploads").no_recovery());
    /// let layer = HttpClientLayer::standard().route(move |request: &Request<Empty<&[u8]>>| {
    ///     request.uri().path().starts_with("/uploads/").then(|| uploads.clone())
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn route<N>(self, routes: N) -> HttpClientLayer<N, B> {
        HttpClientLayer {
            admission: self.admission,
            routes: InlineContextLayer::new(routes),
            deadline: self.deadline,
            body: self.body,
            keys: self.keys,
            defaults: self.defaults,
            replay: self.replay,
            recovery: self.recovery,
            attempt: self.attempt,
            pushback: self.pushback,
            breakers: self.breakers,
        }
    }

    /// Sets the time from the call to the response head, for all attempts together, of calls whose
    /// route has no limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = DeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Without a limit of its own: only the route's and the caller's apply.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.deadline = DeadlineLayer::unlimited();
        self
    }

    /// Sets the time of each attempt to its response head; unlimited by default. After it a request
    /// that is idempotent is sent again, any other may have been carried out.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt = AttemptDeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Sets the time from the response head to the end of the body; unlimited by default. A body
    /// that takes longer ends with an error, and its connection or stream is closed.
    #[must_use]
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body = DeadlineBodyLayer::after_head(Some(timeout));
        self
    }

    /// Sets the strategy; [`Standard`](reattempt::strategy::Standard) by default.
    #[must_use]
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.recovery = self.recovery.strategy(Arc::new(strategy));
        self
    }

    /// Sets which failures are retried. With [`HttpClassifier::judge_bodies`] put an
    /// [`OutcomeBodyLayer`](crate::body::OutcomeBodyLayer) directly below this layer.
    #[must_use]
    pub fn classifier(mut self, classifier: HttpClassifier) -> Self {
        self.recovery = self.recovery.classifier(classifier);
        self
    }

    /// Treats writes as not idempotent, also PUT and DELETE: for APIs in which another client may
    /// change the resource between two attempts, which a repeated write would then overwrite or
    /// delete. GET, HEAD, OPTIONS and TRACE (RFC 9110's safe methods) stay idempotent. What the
    /// caller or a counting `Idempotency-Key` says takes precedence.
    #[must_use]
    pub const fn repeat_only_reads(mut self) -> Self {
        self.defaults.only_reads = true;
        self
    }

    /// Sets how `Retry-After` is read.
    #[must_use]
    pub fn pushback(mut self, pushback: HttpPushback) -> Self {
        self.pushback = pushback;
        self
    }

    /// Makes the throttle of each origin with this function; a default [`TokenBucket`] otherwise.
    ///
    /// [`TokenBucket`]: reattempt::TokenBucket
    #[must_use]
    pub fn throttle_per_origin(
        mut self,
        make: impl Fn() -> Arc<dyn RetryThrottle> + Send + Sync + 'static,
    ) -> Self {
        self.defaults.throttle = ClientThrottle::per_origin(make);
        self
    }

    /// Uses one throttle for all origins.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.defaults.throttle = ClientThrottle::Shared(throttle);
        self
    }

    /// Refuses calls while the server accepts too few of them, with
    /// [`ClientError::Refused`](reattempt::ClientError::Refused): nothing is sent. Each origin
    /// counts by itself, with the settings of this admission, also when they change; this one
    /// counts nothing. [`policies`](Self::policies) has the `admission` of its table already.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use reattempt::Governor;
    /// use reattempt::admission::Admission;
    /// use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
    ///
    /// let table = HttpPolicies::parse(
    ///     r#"{"default": {"retry": {}, "throttle": "shop"},
    ///         "throttles": {"shop": {"governor": true}}, "admission": true}"#,
    /// )?;
    /// let live = LiveHttpPolicies::new(table.policies);
    /// let layer = HttpClientLayer::policies(live);
    /// // Without a document, also one governor for each origin:
    /// let layer = HttpClientLayer::standard()
    ///     .throttle_per_origin(|| Arc::new(Governor::default()))
    ///     .admission(Arc::new(Admission::default()));
    /// # drop(layer);
    /// # Ok::<(), reattempt::config::Faults>(())
    /// ```
    #[must_use]
    pub fn admission(mut self, admission: Arc<Admission>) -> Self {
        self.admission = self.admission.asks(OriginAdmissions::like(admission));
        self
    }

    /// These services, one for each backend, with health: the innermost service of the client. A
    /// backend that fails is ejected for a time, each attempt goes to the less loaded of two, and a
    /// further one to a backend that the call has not tried. It has this layer's classifier,
    /// pushback and observers; keep a clone to change the list and to see its state.
    ///
    /// ```
    /// use reattempt::health::HealthPolicy;
    /// use reattempt_http::HttpClientLayer;
    /// use tower::ServiceBuilder;
    /// # use bytes::Bytes;
    /// # use http_body_util::Full;
    /// # type Sent = http::Request<reattempt_http::body::ReplayBody<Full<Bytes>>>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let connect = |_: &str| tower::service_fn(|_: Sent| async {
    /// #     Ok::<_, std::io::Error>(http::Response::new(Full::<Bytes>::default()))
    /// # });
    ///
    /// let replicas = ["10.0.0.1:80", "10.0.0.2:80"].map(|address| (address, connect(address)));
    /// let layer = HttpClientLayer::standard();
    /// let backends = layer.backends(replicas, HealthPolicy::standard());
    /// let client = ServiceBuilder::new().layer(layer).service(backends.clone());
    ///
    /// backends.insert("10.0.0.3:80", connect("10.0.0.3:80"));
    /// assert!(backends.status().iter().all(|(_, status)| !status.is_ejected()));
    /// # let request = http::Request::new(Full::<Bytes>::default());
    /// # assert!(tower::ServiceExt::oneshot(client, request).await.is_ok());
    /// # }
    /// ```
    #[must_use]
    pub fn backends<N: Into<Arc<str>>, S: Send + 'static>(
        &self,
        services: impl IntoIterator<Item = (N, S)>,
        policy: HealthPolicy,
    ) -> Balanced<S, HttpClassifier, HttpPushback> {
        let classifier = self.recovery.known_classifier();
        let backends = Balanced::new(services, policy, classifier).pushback(self.pushback.clone());
        match self.recovery.known_observer() {
            Some(observer) => backends.observer(observer),
            None => backends,
        }
    }

    /// Refuses attempts at an origin while it fails, by a circuit breaker for each: nothing is
    /// sent, and the call ends at once with
    /// [`ClientError::CircuitOpen`](reattempt::ClientError::CircuitOpen). For a service with one
    /// address; over several [`backends`](Self::backends) their health goes elsewhere instead. The
    /// observers that were added before get its openings and closings; the log has them anyway.
    ///
    /// ```
    /// use reattempt::health::HealthPolicy;
    /// use reattempt_http::HttpClientLayer;
    ///
    /// let layer = HttpClientLayer::standard().circuit_breakers(HealthPolicy::standard());
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn circuit_breakers(self, policy: HealthPolicy) -> HttpClientLayer<R, OriginBreakers> {
        HttpClientLayer {
            breakers: OriginBreakers::new(policy, self.recovery.known_observer()),
            admission: self.admission,
            routes: self.routes,
            deadline: self.deadline,
            body: self.body,
            keys: self.keys,
            defaults: self.defaults,
            replay: self.replay,
            recovery: self.recovery,
            attempt: self.attempt,
            pushback: self.pushback,
        }
    }

    /// Uses no throttle but the route's and the caller's.
    #[must_use]
    pub fn no_throttle(mut self) -> Self {
        self.defaults.throttle = ClientThrottle::None;
        self
    }

    /// Keeps at most this many bytes of one request's body for further attempts, and takes the
    /// memory from this budget. A larger body is sent once.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize, budget: BufferBudget) -> Self {
        let limits = ReplayBodyLayer::new().bytes_per_call(bytes).budget(budget);
        self.replay = ReplayCallBodyLayer::new(limits);
        self
    }

    /// Which requests with an `Idempotency-Key` are idempotent; by default those of routes whose
    /// policy says so.
    #[must_use]
    pub fn idempotency_keys(mut self, keys: IdempotencyKeyLayer) -> Self {
        self.keys = keys;
        self
    }

    /// Adds an observer of every decision; the log stays.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.admission = self.admission.observer(Arc::clone(&observer));
        self.recovery = self.recovery.observer(observer);
        self
    }
}

impl Default for HttpClientLayer {
    fn default() -> Self {
        Self::standard()
    }
}

impl<R, B> fmt::Debug for HttpClientLayer<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClientLayer")
            .field("deadline", &self.deadline)
            .field("body", &self.body)
            .field("defaults", &self.defaults)
            .field("recovery", &self.recovery)
            .field("attempt", &self.attempt)
            .field("pushback", &self.pushback)
            .finish_non_exhaustive()
    }
}

impl<R: Clone, B> HttpClientLayer<R, B> {
    /// All layers but the innermost ones.
    fn around<S, I>(&self, innermost: I) -> HttpClient<S, R, I> {
        let attempt =
            PushbackLayer::new(self.pushback.clone()).layer(ExtendContextLayer.layer(innermost));
        let recovery = self.recovery.layer(self.attempt.layer(attempt));
        let call = self
            .deadline
            .layer(self.body.layer(self.replay.layer(recovery)));
        // Above the deadline, which tells by the idempotency whether a timeout is ambiguous.
        let call = self.keys.layer(self.defaults.layer(call));
        HttpClient::new(self.admission.layer(self.routes.layer(call)))
    }
}

impl<S, R: Clone> Layer<S> for HttpClientLayer<R> {
    type Service = HttpClient<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        self.around(ClientErrorLayer.layer(inner))
    }
}

impl<S, R: Clone> Layer<S> for HttpClientLayer<R, OriginBreakers> {
    type Service = HttpClient<S, R, WithBreakers<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        let classifier = self.recovery.known_classifier();
        let breakers = CircuitBreakerLayer::new(self.breakers.clone(), classifier);
        self.around(breakers.layer(ClientErrorLayer.layer(inner)))
    }
}
