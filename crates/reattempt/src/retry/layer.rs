use std::fmt;
use std::sync::Arc;

use reattempt_core::{Observer, RetryStrategy};
use tower_layer::Layer;

use super::{Config, Retry};
use crate::order::OneWarning;

/// Sends calls again by the verdicts of `C` (a [`Classify`](reattempt_core::Classify)).
///
/// The caller's own strategy (`CallContext::set_strategy`) and the route's policy beat the layer's.
pub struct RetryLayer<C> {
    config: Arc<Config<C>>,
}

impl<C> RetryLayer<C> {
    /// Retries by this classifier and strategy. Transparent retries are on, and nobody is told.
    #[must_use]
    pub fn new(classifier: C, strategy: impl RetryStrategy + 'static) -> Self {
        Self {
            config: Arc::new(Config {
                classifier,
                strategy: Arc::new(strategy),
                transparent: true,
                observer: None,
                no_hedge_layer: OneWarning::default(),
                no_deadline_layer: OneWarning::default(),
            }),
        }
    }
}

impl<C: Clone> RetryLayer<C> {
    fn change(mut self, change: impl FnOnce(&mut Config<C>)) -> Self {
        if Arc::get_mut(&mut self.config).is_none() {
            let old = &*self.config;
            self.config = Arc::new(Config {
                classifier: old.classifier.clone(),
                strategy: Arc::clone(&old.strategy),
                transparent: old.transparent,
                observer: old.observer.clone(),
                no_hedge_layer: OneWarning::default(),
                no_deadline_layer: OneWarning::default(),
            });
        }
        if let Some(config) = Arc::get_mut(&mut self.config) {
            change(config);
        }
        self
    }

    /// Switches transparent retries (A6) on or off; on by default.
    #[must_use]
    pub fn transparent(self, on: bool) -> Self {
        self.change(|config| config.transparent = on)
    }

    /// Tells this observer of every decision; [`LogObserver`](crate::observe::LogObserver) writes them to `tracing`.
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        self.change(|config| config.observer = Some(observer))
    }
}

impl<C> Clone for RetryLayer<C> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config) }
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("strategy", &self.config.strategy)
            .field("transparent", &self.config.transparent)
            .field("observer", &self.config.observer)
            .finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for RetryLayer<C> {
    type Service = Retry<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Retry { inner, config: Arc::clone(&self.config) }
    }
}
