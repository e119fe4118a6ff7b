use std::fmt;
use std::sync::Arc;

use crate::{Observer, RetryStrategy, StackCheck};
use tower_layer::Layer;

use super::{Config, Retry, may_follow, no_recovery};
use crate::observe::{with_log, with_observer};
use crate::policy::strategy::NeverRetry;

/// Retries calls by the verdicts of `C` (a [`Classify`](crate::Classify)).
///
/// The caller's own strategy (`CallContext::set_strategy`) and the route's policy override the
/// layer's. If the policy is "no recovery", a transparent retry that does not fit before the
/// deadline waits for it, unless the layer's strategy was told to give up
/// ([`OnDeadline::GiveUp`](crate::OnDeadline::GiveUp)).
///
/// An error that the classifier does not know is logged once, at WARN, with its type
/// ([`Classify::unknown_error`](crate::Classify::unknown_error)).
pub struct RetryLayer<C> {
    classifier: C,
    strategy: Arc<dyn RetryStrategy>,
    transparent: bool,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    service: Option<&'static str>,
    warnings: [StackCheck; 5],
}

impl<C> RetryLayer<C> {
    /// Retries with this classifier and strategy.
    #[must_use]
    pub fn new(classifier: C, strategy: impl RetryStrategy + 'static) -> Self {
        Self {
            classifier,
            strategy: Arc::new(strategy),
            transparent: true,
            observer: None,
            service: None,
            warnings: Default::default(),
        }
    }

    /// Retries only calls whose policy or own strategy says so. Transparent retries stay: they
    /// need no policy.
    #[must_use]
    pub fn by_policy(classifier: C) -> Self {
        Self::new(classifier, NeverRetry)
    }

    /// Enables or disables transparent retries (A6); enabled by default.
    #[must_use]
    pub fn transparent(mut self, on: bool) -> Self {
        self.transparent = on;
        self
    }

    /// Names the service that the calls are for, in the log of calls whose requests name no host.
    #[must_use]
    pub fn named(mut self, service: &'static str) -> Self {
        self.service = Some(service);
        self
    }

    /// Adds an observer of every decision, to the log
    /// ([`LogObserver`](crate::observe::LogObserver)) and to those added before.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }
}

impl<C: Clone> Clone for RetryLayer<C> {
    fn clone(&self) -> Self {
        Self {
            classifier: self.classifier.clone(),
            strategy: Arc::clone(&self.strategy),
            transparent: self.transparent,
            observer: self.observer.clone(),
            service: self.service,
            warnings: self.warnings.clone(),
        }
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("strategy", &self.strategy)
            .field("transparent", &self.transparent)
            .field("observer", &self.observer)
            .finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for RetryLayer<C> {
    type Service = Retry<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let [
            no_hedge_layer,
            no_deadline_layer,
            no_attempt_deadline,
            no_outcome_layer,
            unknown_error,
        ] = self.warnings.clone();
        let sees_sent = self
            .observer
            .as_ref()
            .is_some_and(|observer| observer.sees_sent());
        let config = Config {
            classifier: self.classifier.clone(),
            strategy: Arc::clone(&self.strategy),
            no_recovery: no_recovery(&*self.strategy),
            transparent: self.transparent,
            is_simple: !sees_sent && may_follow(&*self.strategy),
            of_success: self.observer.clone(),
            sees_sent,
            observer: with_log(self.observer.clone()),
            service: self.service,
            no_hedge_layer,
            no_deadline_layer,
            no_attempt_deadline,
            no_outcome_layer,
            unknown_error,
        };
        Retry {
            inner,
            config: Arc::new(config),
        }
    }
}
