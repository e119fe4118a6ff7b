//! The recovery layers of a client, with what they are made from.

use std::sync::Arc;

use reattempt::hedge::HedgeUnclaimedLayer;
use reattempt::observe::with_observer;
use reattempt::strategy::MaxAttempts;
use reattempt::{HedgeLayer, Observer, RetryLayer, RetryStrategy};
use tower_layer::Layer;

use super::Recovery;
use crate::HttpClassifier;

/// Kept ready-made, so that all services of one client share their warnings: one is made for each
/// call where the transport is known only then.
#[derive(Clone, Debug)]
pub(super) struct RecoveryLayers {
    classifier: HttpClassifier,
    strategy: Arc<dyn RetryStrategy>,
    observer: Option<Arc<dyn Observer>>,
    retry: RetryLayer<HttpClassifier>,
    hedge: HedgeUnclaimedLayer<HttpClassifier>,
}

impl RecoveryLayers {
    fn of(
        classifier: HttpClassifier,
        strategy: Arc<dyn RetryStrategy>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let mut retry = RetryLayer::new(classifier, Arc::clone(&strategy));
        let mut hedge = HedgeLayer::by_policy(classifier);
        if let Some(observer) = &observer {
            retry = retry.observer(Arc::clone(observer));
            hedge = hedge.observer(Arc::clone(observer));
        }
        Self {
            classifier,
            strategy,
            observer,
            retry,
            hedge: hedge.unclaimed(),
        }
    }

    pub(super) fn classifier(self, classifier: HttpClassifier) -> Self {
        Self::of(classifier, self.strategy, self.observer)
    }

    pub(super) fn strategy(self, strategy: Arc<dyn RetryStrategy>) -> Self {
        Self::of(self.classifier, strategy, self.observer)
    }

    pub(super) const fn known_classifier(&self) -> HttpClassifier {
        self.classifier
    }

    pub(super) fn known_observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.clone()
    }

    /// The log stays, and so do earlier observers.
    pub(super) fn observer(self, observer: Arc<dyn Observer>) -> Self {
        let observer = with_observer(self.observer, observer);
        Self::of(self.classifier, self.strategy, Some(observer))
    }
}

impl Default for RecoveryLayers {
    fn default() -> Self {
        Self::of(
            HttpClassifier::new(),
            Arc::new(MaxAttempts::standard()),
            None,
        )
    }
}

impl<S> Layer<S> for RecoveryLayers {
    type Service = Recovery<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.retry.layer(self.hedge.layer(inner))
    }
}
