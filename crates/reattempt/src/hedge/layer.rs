use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::{HedgePolicy, Observer};
use tower_layer::Layer;

use super::{Config, Hedge};
use crate::recovery::Settings;

/// Hedges calls by the verdicts of `C` (a [`Classify`](crate::Classify)): `Retry` is not
/// fatal, `Fatal` is. An error that the classifier does not know is logged once, at WARN, with its
/// type ([`Classify::unknown_error`](crate::Classify::unknown_error)).
#[derive(Clone)]
pub struct HedgeLayer<C> {
    policy: Option<Arc<HedgePolicy>>,
    settings: Settings<C>,
}

impl<C> HedgeLayer<C> {
    fn with(classifier: C, policy: Option<Arc<HedgePolicy>>) -> Self {
        Self {
            policy,
            settings: Settings::new("HedgeLayer", classifier),
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
        self.settings.transparent = on;
        self
    }

    /// Names the service that the calls are for, in the log of calls whose requests name no host.
    #[must_use]
    pub fn named(mut self, service: impl Into<Cow<'static, str>>) -> Self {
        self.settings.service = Some(service.into());
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

impl<C> fmt::Debug for HedgeLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeLayer")
            .field("policy", &self.policy)
            .field("transparent", &self.settings.transparent)
            .field("observer", &self.settings.own_observer)
            .finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for HedgeLayer<C> {
    type Service = Hedge<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let config = Config {
            policy: self.policy.clone(),
            settings: self.settings.clone(),
        };
        Hedge {
            inner,
            config: Arc::new(config),
        }
    }
}
