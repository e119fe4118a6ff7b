//! The settings of a key-value client, and the defaults with their sources.

use std::sync::Arc;
use std::time::Duration;

use reattempt::observe::with_observer;
use reattempt::strategy::BestEffort;
use reattempt::{
    AttemptDeadlineLayer, ClientErrorLayer, ConfigPollLayer, HedgeLayer, Observer, PushbackLayer,
    RetryLayer, RetryStrategy, RetryThrottle, ThrottleLayer,
};
use tower_layer::Layer;

use super::KvClient;
use super::timeouts::TimeoutLayer;
use crate::kv::{ErrorMapStrategy, ErrorMaps, KvClassifier, KvPushback};
use crate::{ConfigPoller, StaleKvConfig};

/// RFC 0059's KVTimeout.
pub const KV_TIMEOUT: Duration = Duration::from_millis(2500);

/// RFC 0059's KVDurableTimeout: a [durable](crate::KvRequest::is_durable) write is answered after
/// it was replicated or persisted.
pub const KV_DURABLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Retries for a key-value client.
///
/// | setting | default | source |
/// | --- | --- | --- |
/// | strategy | [`BestEffort`]: after 1, 2, 4 … 256, then every 500 ms, until the deadline | RFC 0049, Best Effort |
/// | which failures | RFC 0049's list; other statuses by the error map of the node that answered | [`KvClassifier`] |
/// | which requests | those of RFC 0049's list of idempotent operations; any, if it was never sent or did nothing | [`attach_idempotency`](super::attach_idempotency) |
/// | time for all attempts | [2.5 s](KV_TIMEOUT) | RFC 0059, KVTimeout |
/// | of a [durable](crate::KvRequest::is_durable) write | [10 s](KV_DURABLE_TIMEOUT) | RFC 0059, KVDurableTimeout |
/// | time of each attempt | unlimited | RFC 0049 has no such limit |
/// | a delay that does not fit | waits until the deadline and sends nothing | RFC 0049, Capping the Retry Duration |
/// | retry specifications of error maps | unused | RFC 0049 allows them only to a strategy of their own: [`error_maps`](Self::error_maps) |
/// | throttle | none | RFC 0049 has none: the deadline bounds the attempts |
/// | a throttled connection | its duration is waited for, [with the current codes](Self::with_current_server_codes) | [`KvPushback`] |
/// | a stale configuration | another node is asked at once; if the key has moved, the retry is sent at once | RFC 0024, [`StaleKvConfig`] |
/// | a node that never answers | a call or attempt that times out asks another node too | RFC 0024, Conclusion |
///
/// A route's policy ([`RouteLayer`](reattempt::RouteLayer) above this layer) may set timeouts,
/// also longer ones, a throttle, another strategy or hedging, and the caller's own settings on the
/// request override both; a timeout of the caller only shortens. Clones share the throttle;
/// so do the services that one layer makes.
///
/// Below it, the client reports node and stage of an attempt in progress
/// ([`AttemptReporter`](reattempt::AttemptReporter)): without them a write that times out while it
/// waits for a connection is reported as ambiguous.
///
/// ```
/// use std::time::Duration;
/// use reattempt_couchbase::{ErrorMaps, KvClientLayer};
///
/// let maps = ErrorMaps::new(); // filled by the client's connections
/// let layer = KvClientLayer::without_config_poll()
///     .error_maps(maps)
///     .timeout(Duration::from_secs(1))
///     .attempt_timeout(Duration::from_millis(300));
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct KvClientLayer {
    throttle: ThrottleLayer,
    timeouts: TimeoutLayer,
    classifier: KvClassifier,
    strategy: Arc<dyn RetryStrategy>,
    maps: Option<ErrorMaps>,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    stale: Option<StaleKvConfig>,
    attempt: AttemptDeadlineLayer,
}

impl KvClientLayer {
    /// With the defaults of the [table](Self), and this poller for newer configurations. The client
    /// selects each attempt's node by the poller's [store](ConfigPoller::store).
    #[must_use]
    pub fn new(poller: ConfigPoller) -> Self {
        Self {
            stale: Some(StaleKvConfig::new(poller)),
            ..Self::without_config_poll()
        }
    }

    /// For memcached, which has no cluster configuration, and for clients that get theirs in
    /// another way.
    #[must_use]
    pub fn without_config_poll() -> Self {
        Self {
            throttle: ThrottleLayer::by_policy(),
            timeouts: TimeoutLayer::new(KV_DURABLE_TIMEOUT, KV_TIMEOUT),
            classifier: KvClassifier::new(),
            strategy: Arc::new(BestEffort::new()),
            maps: None,
            observer: None,
            stale: None,
            attempt: AttemptDeadlineLayer::by_policy(),
        }
    }

    /// Also handles the codes of current servers:
    /// [`KvClassifier::with_current_server_codes`] and
    /// [`StaleKvConfig::with_current_server_codes`]. A server answers EWOULDTHROTTLE only to a
    /// client that asked for it (HELLO feature 0x1b), and else answers late.
    #[must_use]
    pub fn with_current_server_codes(mut self) -> Self {
        self.classifier = self.classifier.with_current_server_codes();
        self.stale = self.stale.map(StaleKvConfig::with_current_server_codes);
        self
    }

    /// Sets the time of a call, for all attempts together; also of a durable write.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts = TimeoutLayer::new(timeout, timeout);
        self
    }

    /// Without a limit of its own: only the policy's and the caller's apply. A call without any
    /// limit retries without end.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeouts = TimeoutLayer::none();
        self
    }

    /// Sets the time of each attempt; unlimited by default. After it an idempotent request is sent
    /// again, any other may have been carried out.
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

    /// Retries statuses that only an error map defines by the retry specification of that map
    /// ([`ErrorMapStrategy`]), and everything else by the [strategy](Self::strategy).
    #[must_use]
    pub fn error_maps(mut self, maps: ErrorMaps) -> Self {
        self.maps = Some(maps);
        self
    }

    /// Uses this throttle; none by default.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = ThrottleLayer::new(throttle);
        self
    }

    /// Adds an observer of every decision; the log stays, and the poller is always one too.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }

    /// The observer of the recovery layers: with the poller, which detects nodes that never answer.
    fn observers(&self) -> Option<Arc<dyn Observer>> {
        let Some(stale) = &self.stale else {
            return self.observer.clone();
        };
        let poller = Arc::new(stale.poller().clone());
        Some(with_observer(self.observer.clone(), poller))
    }
}

impl<S> Layer<S> for KvClientLayer {
    type Service = KvClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let strategy = Arc::clone(&self.strategy);
        let mut retry = match &self.maps {
            None => RetryLayer::new(self.classifier, strategy),
            Some(maps) => {
                let by_map = ErrorMapStrategy::new(maps.clone()).otherwise(strategy);
                RetryLayer::new(self.classifier, by_map)
            }
        };
        retry = retry.named("couchbase.kv");
        let mut hedge = HedgeLayer::by_policy(self.classifier).named("couchbase.kv");
        if let Some(observer) = self.observers() {
            retry = retry.observer(Arc::clone(&observer));
            hedge = hedge.observer(observer);
        }
        let answered = PushbackLayer::new(KvPushback::new()).layer(ClientErrorLayer.layer(inner));
        let limited = self.attempt.layer(answered);
        let attempt = ConfigPollLayer::new(self.stale.clone()).layer(limited);
        let call = self
            .timeouts
            .layer(retry.layer(hedge.unclaimed().layer(attempt)));
        KvClient {
            stack: self.throttle.layer(call),
        }
    }
}
