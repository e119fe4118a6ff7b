//! The settings of a MongoDB client, and the defaults with their sources.

use std::sync::Arc;
use std::time::Duration;

use reattempt::observe::with_observer;
use reattempt::{
    AttemptDeadlineLayer, ClientErrorLayer, DeadlineLayer, HedgeLayer, Observer, RetryLayer,
    RetryThrottle, ThrottleLayer,
};
use tower_layer::Layer;

use super::MongoClient;
use crate::{MongoClassifier, NestedRetries, RetryReads, RetryableReads};

/// Retryable Reads around a client.
///
/// | setting | [`new`](Self::new) | source |
/// | --- | --- | --- |
/// | how often, and when | one retry, at once | Retryable Reads, Executing Retryable Read Commands: [`RetryableReads`] |
/// | which failures | eleven codes, network errors, a cleared pool | Retryable Reads, Retryable Error: [`MongoClassifier`] |
/// | which operations | reads outside of transactions | Retryable Reads, Supported Read Operations: [`RetryReads`] |
/// | which error is raised | the second, unless its command never reached a server; of a hedged read the one that arrives last | Retryable Reads, Executing Retryable Read Commands; hedges: gRPC A6 |
/// | `retryReads` | on | Retryable Reads, MongoClient Configuration |
/// | time for all attempts | unlimited | `timeoutMS` is unset by default (Client Side Operations Timeout); some reads take hours |
/// | time of each attempt | unlimited | `socketTimeoutMS` of drivers that have it |
/// | throttle | none | Retryable Reads has none |
///
/// Without a timeout a server that accepts a command and never answers keeps the call: set one
/// here, or [for each attempt](Self::attempt_timeout). The official Rust driver has no
/// `socketTimeoutMS`.
///
/// [`current`](Self::current) has the rules of 2026: more codes, retries of any command that an
/// overloaded server has refused, and, only for a call with a [timeout](Self::timeout), retries
/// until that limit.
///
/// A route's policy ([`RouteLayer`](reattempt::RouteLayer) above this layer) replaces the one of
/// the gate, and the caller's own settings on the request override both; neither enables retries of
/// an operation that the gate runs once, unless the policy has a [`ReadGate`](crate::ReadGate) of
/// its own. Clones share the throttle; so do the services that one layer makes.
///
/// ```
/// use std::time::Duration;
/// use reattempt_mongodb::{MongoClientLayer, RetryableReads};
///
/// let layer = MongoClientLayer::current()
///     .strategy(RetryableReads::current().overload_backoff(4)) // maxAdaptiveRetries
///     .timeout(Duration::from_secs(10)) // timeoutMS
///     .retry_writes(false);
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct MongoClientLayer {
    gate: RetryReads,
    throttle: ThrottleLayer,
    deadline: DeadlineLayer,
    classifier: MongoClassifier,
    strategy: RetryableReads,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    attempt: AttemptDeadlineLayer,
}

impl MongoClientLayer {
    fn with(classifier: MongoClassifier, strategy: RetryableReads) -> Self {
        Self {
            gate: RetryReads::with_strategy(true, strategy.clone()),
            throttle: ThrottleLayer::by_policy(),
            deadline: DeadlineLayer::no_timeout(),
            classifier,
            strategy,
            observer: None,
            attempt: AttemptDeadlineLayer::by_policy(),
        }
    }

    /// With the defaults of the [table](Self): the specification of 2022-01-25.
    #[must_use]
    pub fn new() -> Self {
        Self::with(MongoClassifier::seed_2022(), RetryableReads::seed_2022())
    }

    /// The specification of 2026: [`MongoClassifier::current`] and [`RetryableReads::current`].
    #[must_use]
    pub fn current() -> Self {
        Self::with(MongoClassifier::current(), RetryableReads::current())
    }

    /// The client's `retryReads`; true by default.
    #[must_use]
    pub const fn retry_reads(mut self, on: bool) -> Self {
        self.gate.set_retry_reads(on);
        self
    }

    /// The client's `retryWrites`, for overload only; true by default:
    /// [`RetryReads::retry_writes`].
    #[must_use]
    pub fn retry_writes(mut self, on: bool) -> Self {
        self.gate = self.gate.retry_writes(on);
        self
    }

    /// Runs a call once if another retry layer is detected above:
    /// [`RetryReads::stand_back_when_nested`].
    #[must_use]
    pub fn stand_back_when_nested(mut self, on: bool) -> Self {
        self.gate = self.gate.stand_back_when_nested(on);
        self
    }

    /// Calls this function for each call in which another retry layer is detected above:
    /// [`RetryReads::on_nested`].
    #[must_use]
    pub fn on_nested(mut self, callback: impl Fn(NestedRetries) + Send + Sync + 'static) -> Self {
        self.gate = self.gate.on_nested(callback);
        self
    }

    /// Sets which failures are retried.
    #[must_use]
    pub const fn classifier(mut self, classifier: MongoClassifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// Sets how often and when.
    #[must_use]
    pub fn strategy(mut self, strategy: RetryableReads) -> Self {
        self.gate = self.gate.for_strategy(strategy.clone());
        self.strategy = strategy;
        self
    }

    /// Sets the time of a call, for all attempts together (`timeoutMS`).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = DeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Sets the time of each attempt; unlimited by default. After it the attempt has failed with a
    /// network timeout.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt = AttemptDeadlineLayer::new(timeout).unless_policy();
        self
    }

    /// Uses this throttle; none by default.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = ThrottleLayer::new(throttle);
        self
    }

    /// Adds an observer of every decision; the log stays.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }
}

impl Default for MongoClientLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for MongoClientLayer {
    type Service = MongoClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let classifier = self.classifier.for_strategy(&self.strategy);
        let mut retry = RetryLayer::new(classifier, self.strategy.clone()).named("mongodb");
        // A hedging policy sends the next attempt at once.
        let at_once = classifier.without_overload_errors();
        let mut hedge = HedgeLayer::by_policy(at_once).named("mongodb");
        if let Some(observer) = &self.observer {
            retry = retry.observer(Arc::clone(observer));
            hedge = hedge.observer(Arc::clone(observer));
        }
        let attempt = self.attempt.layer(ClientErrorLayer.layer(inner));
        let call = self
            .deadline
            .layer(retry.layer(hedge.unclaimed().layer(attempt)));
        MongoClient {
            gate: Arc::new(self.gate.clone()),
            stack: self.throttle.layer(call),
        }
    }
}
