//! The settings of a client of an HTTP service, and the defaults with their sources.

use std::sync::Arc;
use std::time::Duration;

use reattempt::observe::with_observer;
use reattempt::strategy::BestEffort;
use reattempt::{
    AttemptDeadlineLayer, ClientErrorLayer, DeadlineLayer, HedgeLayer, Observer, RetryLayer,
    RetryStrategy, RetryThrottle, ThrottleLayer,
};
use reattempt_http::HttpClassifier;
use reattempt_http::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use tower_layer::Layer;

use super::ServiceClient;
use crate::service::{HttpService, ServiceClassifier, ServiceErrorLayer, ServiceIdempotencyLayer};

/// RFC 0059's QueryTimeout, AnalyticsTimeout, SearchTimeout, ViewTimeout and ManagementTimeout.
pub const SERVICE_TIMEOUT: Duration = Duration::from_secs(75);

/// Retries for a client of one of the services over HTTP.
///
/// | setting | default | source |
/// | --- | --- | --- |
/// | strategy | [`BestEffort`]: after 1, 2, 4 … 256, then every 500 ms, until the deadline | RFC 0049, Best Effort |
/// | which failures | RFC 0049's list for the service; lost attempts | [`HttpService`], [`ServiceClassifier`] |
/// | which requests | query and analytics: those that are [`ReadOnly`](super::super::ReadOnly); search, views: all; management: GET. Any, if it was never sent or did nothing | RFC 0049, Idempotent Operation List |
/// | time to the end of the response | [75 s](SERVICE_TIMEOUT) for all attempts, for each service | RFC 0059, QueryTimeout and others |
/// | time of each attempt | unlimited | RFC 0049 has no such limit |
/// | a delay that does not fit | waits until the deadline and sends nothing | RFC 0049, Capping the Retry Duration |
/// | how much of a response is read before it is judged | 64 KiB or 5 s of a failed one, 16 KiB or 1 s of another | [`ServiceErrorLayer`] |
/// | throttle | none | RFC 0049 has none: the deadline bounds the attempts |
/// | bytes of a request body kept | 256 KiB a call, 16 MiB in all; a larger body is sent once | [`ReplayBodyLayer`] |
///
/// The layer follows no redirect. A client below that does (reqwest's, unless its policy is `none`)
/// hides the 302 of a view from it.
///
/// Each attempt goes to the request's URI. Put a service that chooses a node for each attempt
/// below, and set [`attempt_timeout`](Self::attempt_timeout), so that a node that drops packets
/// does not take all the time.
///
/// A route's policy ([`RouteLayer`](reattempt::RouteLayer) above this layer) may set timeouts,
/// also longer ones, a throttle, another strategy or hedging, and the caller's own settings on the
/// request override both; a timeout of the caller only shortens. Clones share the throttle
/// and the body budget; so do the services that one layer makes.
///
/// ```
/// use std::time::Duration;
/// use reattempt_couchbase::ServiceClientLayer;
///
/// let layer = ServiceClientLayer::analytics()
///     .with_current_server_codes()
///     .timeout(Duration::from_secs(300));
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct ServiceClientLayer {
    service: HttpService,
    throttle: ThrottleLayer,
    deadline: DeadlineLayer,
    replay: ReplayBodyLayer,
    strategy: Arc<dyn RetryStrategy>,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    attempt: AttemptDeadlineLayer,
}

impl ServiceClientLayer {
    /// For this service, with the defaults of the [table](Self).
    #[must_use]
    pub fn new(service: HttpService) -> Self {
        Self {
            service,
            throttle: ThrottleLayer::by_policy(),
            deadline: DeadlineLayer::new(SERVICE_TIMEOUT).unless_policy(),
            replay: ReplayBodyLayer::new(),
            strategy: Arc::new(BestEffort::new()),
            observer: None,
            attempt: AttemptDeadlineLayer::by_policy(),
        }
    }

    /// The query service.
    #[must_use]
    pub fn query() -> Self {
        Self::new(HttpService::query())
    }

    /// The analytics service.
    #[must_use]
    pub fn analytics() -> Self {
        Self::new(HttpService::analytics())
    }

    /// The search service.
    #[must_use]
    pub fn search() -> Self {
        Self::new(HttpService::search())
    }

    /// The view engine.
    #[must_use]
    pub fn views() -> Self {
        Self::new(HttpService::views())
    }

    /// Cluster management, and the management APIs of the other services.
    #[must_use]
    pub fn management() -> Self {
        Self::new(HttpService::management())
    }

    /// Also handles the codes of current servers: [`HttpService::with_current_server_codes`].
    #[must_use]
    pub const fn with_current_server_codes(mut self) -> Self {
        self.service = self.service.with_current_server_codes();
        self
    }

    /// Sets the time from the call to the end of the response, for all attempts together.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = DeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Without a limit of its own: only the policy's and the caller's apply. A call without any
    /// limit retries without end.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.deadline = DeadlineLayer::no_timeout();
        self
    }

    /// Sets the time of each attempt until its response is judged; unlimited by default. After it
    /// an idempotent request is sent again, any other may have been carried out.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt = AttemptDeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Sets the strategy; [`BestEffort`] by default.
    #[must_use]
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Uses this throttle; none by default.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = ThrottleLayer::new(throttle);
        self
    }

    /// Keeps at most this many bytes of one request's body for further attempts, and takes the
    /// memory from this budget. A larger body is sent once.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize, budget: BufferBudget) -> Self {
        self.replay = ReplayBodyLayer::new().bytes_per_call(bytes).budget(budget);
        self
    }

    /// Adds an observer of every decision; the log stays.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }
}

impl<S> Layer<S> for ServiceClientLayer {
    type Service = ServiceClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        // Lost attempts are classified by the HTTP client's own classifier.
        let classifier = ServiceClassifier::new(self.service, HttpClassifier::new());
        let mut retry = RetryLayer::new(classifier.clone(), Arc::clone(&self.strategy));
        let mut hedge = HedgeLayer::by_policy(classifier);
        if let Some(observer) = &self.observer {
            retry = retry.observer(Arc::clone(observer));
            hedge = hedge.observer(Arc::clone(observer));
        }
        let read = ServiceErrorLayer::new(self.service).layer(ClientErrorLayer.layer(inner));
        let recovery = retry.layer(hedge.unclaimed().layer(self.attempt.layer(read)));
        let body = DeadlineBodyLayer::new().layer(self.replay.layer(recovery));
        let call = self.throttle.layer(self.deadline.layer(body));
        ServiceClient {
            stack: ServiceIdempotencyLayer::new(self.service).layer(call),
        }
    }
}
