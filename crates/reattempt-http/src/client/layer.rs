//! An HTTP client's settings, and the defaults with their sources.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reattempt::{
    AttemptDeadlineLayer, ClientErrorLayer, DeadlineLayer, Observer, RetryStrategy, RetryThrottle,
    Route, RoutePolicy,
};
use tower_layer::Layer;

use super::HttpClient;
use super::breakers::NoBreakers;
use super::defaults::ClientThrottle;
use super::settings::Settings;
use crate::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use crate::call::{InlineContextLayer, ReplayCallBodyLayer};
use crate::{HttpClassifier, HttpPushback, IdempotencyKeyLayer, LiveHttpPolicies};

/// Retries for an HTTP client.
///
/// | setting | [`standard`](Self::standard) | source |
/// | --- | --- | --- |
/// | attempts, the first included | 3 | the standard mode of the AWS SDKs |
/// | back-off | full jitter from 100 ms, doubled, at most 20 s | AWS, "Exponential Backoff And Jitter"; the SDKs' 20 s |
/// | which failures | 408, 425, 429, 500, 502, 503, 504, transport errors | [`HttpClassifier`] |
/// | which requests | idempotent ones, or those that were not processed | RFC 9110, section 9.2.2 |
/// | `Retry-After` | honoured up to 30 s, as far as the call's 30 s leave room (set a longer [`timeout`](Self::timeout) to wait longer), up to 250 ms later; beyond 30 s the response is returned | RFC 9110, section 10.2.3 |
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
/// these, a timeout also by a longer one, and what it leaves unset is as here. The caller's own
/// settings on the request override both; but a timeout of the caller or of a layer above only
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
    pub(super) settings: Settings,
    pub(super) routes: InlineContextLayer<R>,
    pub(super) breakers: B,
}

/// The routes of a client that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoutes;

impl<Req> Route<Req> for NoRoutes {
    fn route(&self, _: &Req) -> Option<Arc<RoutePolicy>> {
        None
    }
}

impl HttpClientLayer {
    /// With the defaults of the [table](Self).
    #[must_use]
    pub fn standard() -> Self {
        Self {
            settings: Settings::standard(),
            routes: InlineContextLayer::new(NoRoutes),
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
            settings: self.settings,
            routes: InlineContextLayer::new(routes),
            breakers: self.breakers,
        }
    }

    /// Sets the time from the call to the response head, for all attempts together, of calls whose
    /// route has no limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.deadline = DeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Without a limit of its own: only the route's and the caller's apply.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.settings.deadline = DeadlineLayer::no_timeout();
        self
    }

    /// Sets the time of each attempt to its response head; unlimited by default. After it a request
    /// that is idempotent is sent again, any other may have been carried out.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt = AttemptDeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Attempts have no limit of their own. For uploads with a preset that has one, such as
    /// [`github`](HttpClientLayer::github): the upload counts.
    #[must_use]
    pub fn no_attempt_timeout(mut self) -> Self {
        self.settings.attempt = AttemptDeadlineLayer::by_policy();
        self
    }

    /// Sets the time from the response head to the end of the body; unlimited by default. A body
    /// that takes longer ends with an error, and its connection or stream is closed, unless the
    /// request is still being sent: over HTTP/2 hyper sends the rest first.
    #[must_use]
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.settings.body = DeadlineBodyLayer::after_head(Some(timeout));
        self
    }

    /// Sets the strategy; by default
    /// [`MaxAttempts::standard`](reattempt::strategy::MaxAttempts::standard).
    #[must_use]
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.settings.recovery = self.settings.recovery.strategy(Arc::new(strategy));
        self
    }

    /// Sets which failures are retried. With [`HttpClassifier::judge_bodies`] put an
    /// [`OutcomeBodyLayer`](crate::body::OutcomeBodyLayer) directly below this layer.
    ///
    /// A token that has expired: a 401 is retried once, at once, also of a POST, and the layer that
    /// signs each attempt sees it in the context.
    ///
    /// ```
    /// use std::io;
    /// use http::{Request, Response};
    /// use reattempt::HasCallContext;
    /// use reattempt::strategy::{Extended, MaxAttempts, RetryOnce};
    /// use reattempt_http::body::ReplayBody;
    /// use reattempt_http::reasons::HTTP_STATUS;
    /// use reattempt_http::{HttpClassifier, HttpClientLayer, StatusSet};
    /// use tower::{ServiceBuilder, ServiceExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let statuses = HttpClassifier::new()
    ///     .also_retryable(401)
    ///     .safe(StatusSet::of(&[401, 425, 429]));
    /// let client = ServiceBuilder::new()
    ///     .layer(
    ///         HttpClientLayer::standard()
    ///             .classifier(statuses)
    ///             .strategy(Extended::new(MaxAttempts::standard()).by(HTTP_STATUS, RetryOnce)),
    ///     )
    ///     .map_request(|mut request: Request<ReplayBody<String>>| {
    ///         let info = request.context().map(|context| context.info()).unwrap_or_default();
    ///         let last = info.records().last().and_then(|record| record.failure);
    ///         let expired = last.is_some_and(|failure| failure.code == Some(401));
    ///         let token = if expired { "new" } else { "old" };
    ///         request.headers_mut().insert("authorization", token.parse().unwrap());
    ///         request
    ///     })
    ///     .service_fn(|request: Request<ReplayBody<String>>| async move {
    ///         let is_new = request.headers()["authorization"] == "new";
    ///         let answer = Response::builder().status(if is_new { 200 } else { 401 });
    ///         answer.body(String::new()).map_err(io::Error::other)
    ///     });
    /// let order = Request::post("http://shop/orders").body("one loaf".to_owned())?;
    /// assert_eq!(client.oneshot(order).await?.status(), 200);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn classifier(mut self, classifier: HttpClassifier) -> Self {
        self.settings.recovery = self.settings.recovery.classifier(classifier);
        self
    }

    /// Treats writes as not idempotent, also PUT and DELETE: for APIs in which another client may
    /// change the resource between two attempts, which a repeated write would then overwrite or
    /// delete. GET, HEAD, OPTIONS and TRACE (RFC 9110's safe methods) stay idempotent. What the
    /// caller or a counting `Idempotency-Key` says takes precedence.
    #[must_use]
    pub const fn repeat_only_reads(mut self) -> Self {
        self.settings.defaults.only_reads = true;
        self
    }

    /// Sets how `Retry-After` is read.
    #[must_use]
    pub fn pushback(mut self, pushback: HttpPushback) -> Self {
        self.settings.pushback = Arc::new(pushback);
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
        self.settings.defaults.throttle = ClientThrottle::per_origin(make);
        self
    }

    /// Uses one throttle for all origins.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.settings.defaults.throttle = ClientThrottle::Shared(throttle);
        self
    }

    /// Uses no throttle but the route's and the caller's.
    #[must_use]
    pub fn no_throttle(mut self) -> Self {
        self.settings.defaults.throttle = ClientThrottle::None;
        self
    }

    /// Keeps at most this many bytes of one request's body for further attempts, and takes the
    /// memory from this budget. A larger body is sent once.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize, budget: BufferBudget) -> Self {
        let limits = ReplayBodyLayer::new().bytes_per_call(bytes).budget(budget);
        self.settings.replay = ReplayCallBodyLayer::new(limits);
        self
    }

    /// Which requests with an `Idempotency-Key` are idempotent; by default those of routes whose
    /// policy says so.
    #[must_use]
    pub fn idempotency_keys(mut self, keys: IdempotencyKeyLayer) -> Self {
        self.settings.keys = keys;
        self
    }

    /// Adds an observer of every decision; the log stays.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.admission = self.settings.admission.observer(Arc::clone(&observer));
        self.settings.recovery = self.settings.recovery.observer(observer);
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
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S, R: Clone> Layer<S> for HttpClientLayer<R> {
    type Service = HttpClient<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        let routes = &self.routes;
        self.settings.around(routes, ClientErrorLayer.layer(inner))
    }
}
