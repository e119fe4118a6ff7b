use std::fmt;
use std::sync::Arc;

use crate::{HedgePolicy, Observer, StackCheck};
use tower_layer::Layer;

use super::{Config, Hedge};
use crate::observe::{with_log, with_observer};

/// Hedges calls by the verdicts of `C` (a [`Classify`](crate::Classify)): `Retry` is not
/// fatal, `Fatal` is. An error that the classifier does not know is logged once, at WARN, with its
/// type ([`Classify::unknown_error`](crate::Classify::unknown_error)).
pub struct HedgeLayer<C> {
    classifier: C,
    policy: Option<Arc<HedgePolicy>>,
    transparent: bool,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    no_retry_layer: StackCheck,
    no_deadline_layer: StackCheck,
    no_attempt_deadline: StackCheck,
    no_outcome_layer: StackCheck,
    unknown_error: StackCheck,
}

impl<C> HedgeLayer<C> {
    fn with(classifier: C, policy: Option<Arc<HedgePolicy>>) -> Self {
        Self {
            classifier,
            policy,
            transparent: true,
            observer: None,
            no_retry_layer: StackCheck::default(),
            no_deadline_layer: StackCheck::default(),
            no_attempt_deadline: StackCheck::default(),
            no_outcome_layer: StackCheck::default(),
            unknown_error: StackCheck::default(),
        }
    }

    /// Hedges every call with this policy, unless the route's policy overrides it.
    #[must_use]
    pub fn new(classifier: C, policy: HedgePolicy) -> Self {
        Self::with(classifier, Some(Arc::new(policy)))
    }

    /// Hedges only calls whose route's policy asks for it; others pass through.
    #[must_use]
    pub fn by_policy(classifier: C) -> Self {
        Self::with(classifier, None)
    }

    /// Enables or disables transparent retries (A6); enabled by default.
    #[must_use]
    pub fn transparent(mut self, on: bool) -> Self {
        self.transparent = on;
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

impl<C: Clone> Clone for HedgeLayer<C> {
    fn clone(&self) -> Self {
        Self {
            classifier: self.classifier.clone(),
            policy: self.policy.clone(),
            transparent: self.transparent,
            observer: self.observer.clone(),
            no_retry_layer: self.no_retry_layer.clone(),
            no_deadline_layer: self.no_deadline_layer.clone(),
            no_attempt_deadline: self.no_attempt_deadline.clone(),
            no_outcome_layer: self.no_outcome_layer.clone(),
            unknown_error: self.unknown_error.clone(),
        }
    }
}

impl<C> fmt::Debug for HedgeLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeLayer")
            .field("policy", &self.policy)
            .field("transparent", &self.transparent)
            .field("observer", &self.observer)
            .finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for HedgeLayer<C> {
    type Service = Hedge<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let config = Config {
            classifier: self.classifier.clone(),
            policy: self.policy.clone(),
            transparent: self.transparent,
            hears: self.observer.is_some(),
            sees_sent: self
                .observer
                .as_ref()
                .is_some_and(|observer| observer.sees_sent()),
            observer: with_log(self.observer.clone()),
            no_retry_layer: self.no_retry_layer.clone(),
            no_deadline_layer: self.no_deadline_layer.clone(),
            no_attempt_deadline: self.no_attempt_deadline.clone(),
            no_outcome_layer: self.no_outcome_layer.clone(),
            unknown_error: self.unknown_error.clone(),
        };
        Hedge {
            inner,
            config: Arc::new(config),
        }
    }
}
