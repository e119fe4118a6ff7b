use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::{Observer, RetryStrategy};
use tower_layer::Layer;

use super::by_policy::{may_follow, no_recovery};
use super::{Config, Retry};
use crate::policy::strategy::NeverRetry;
use crate::recovery::{Settings, Warnings};

/// Retries calls by the verdicts of `C` (a [`Classify`](crate::Classify)).
///
/// The caller's own strategy (`CallContext::set_strategy`) and the route's policy override the
/// layer's. If the policy is "no recovery", a transparent retry that does not fit before the
/// deadline waits for it, unless the layer's strategy was told to give up
/// ([`OnDeadline::GiveUp`](crate::OnDeadline::GiveUp)).
///
/// An error that the classifier does not know is logged once, at WARN, with its type
/// ([`Classify::unknown_error`](crate::Classify::unknown_error)).
#[derive(Clone)]
pub struct RetryLayer<C> {
    strategy: Arc<dyn RetryStrategy>,
    settings: Settings<C>,
}

impl<C> RetryLayer<C> {
    /// Retries with this classifier and strategy.
    #[must_use]
    pub fn new(classifier: C, strategy: impl RetryStrategy + 'static) -> Self {
        Self {
            strategy: Arc::new(strategy),
            settings: Settings::new("RetryLayer", classifier),
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
        self.settings.transparent = on;
        self
    }

    /// Names the service that the calls are for, in the log of calls whose requests name no host.
    #[must_use]
    pub fn named(mut self, service: impl Into<Cow<'static, str>>) -> Self {
        self.settings.service = Some(service.into());
        self
    }

    /// Warns once together with the layers of all calls of this kind.
    pub(crate) fn warning(mut self, warnings: &Warnings) -> Self {
        self.settings.warnings = warnings.clone();
        self
    }

    /// Adds an observer of every decision, to the log
    /// ([`LogObserver`](crate::observe::LogObserver)) and to those added before.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observe(observer);
        self
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("strategy", &self.strategy)
            .field("transparent", &self.settings.transparent)
            .field("observer", &self.settings.own_observer)
            .finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for RetryLayer<C> {
    type Service = Retry<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let settings = self.settings.clone();
        let config = Config {
            strategy: Arc::clone(&self.strategy),
            no_recovery: no_recovery(&*self.strategy),
            may_follow: may_follow(&*self.strategy),
            settings,
        };
        Retry {
            inner,
            config: Arc::new(config),
        }
    }
}

impl<S: Clone, C> Clone for Retry<S, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            config: Arc::clone(&self.config),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Retry<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("inner", &self.inner)
            .field("strategy", &self.config.strategy)
            .finish_non_exhaustive()
    }
}
