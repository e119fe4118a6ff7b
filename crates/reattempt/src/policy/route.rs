//! Policies of single routes, and a table of them that can be swapped while calls are running.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::HedgePolicy;
use crate::{RetryStrategy, RetryThrottle};

/// How calls of a route recover from failure.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// As configured on the recovery layer.
    #[default]
    Default,
    /// No recovery. A `RetryLayer` still retries transparent failures and always-retry reasons; a
    /// `HedgeLayer` alone sends nothing again.
    None,
    /// Retries after a failure.
    Retry(Arc<dyn RetryStrategy>),
    /// Hedges before a failure.
    Hedge(Arc<HedgePolicy>),
}

/// The policy of one route or method.
///
/// The caller's own setting overrides the policy, and the policy overrides the layer. Of two time
/// limits the earlier applies, except that in the presets for HTTP, Couchbase and MongoDB the
/// policy's replaces the preset's (`DeadlineLayer::unless_policy`).
#[derive(Clone, Default)]
pub struct RoutePolicy {
    name: Cow<'static, str>,
    recovery: Recovery,
    throttle: Option<Arc<dyn RetryThrottle>>,
    timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    data: Option<Arc<dyn Any + Send + Sync>>,
    /// Of other types than `data`, at most one of each.
    more_data: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutePolicy")
            .field("name", &self.name)
            .field("recovery", &self.recovery)
            .field("throttle", &self.throttle)
            .field("timeout", &self.timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .finish_non_exhaustive()
    }
}

impl RoutePolicy {
    /// A policy that changes nothing; the name appears in the log and in recordings.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Retries with this strategy.
    #[must_use]
    pub fn retry(self, strategy: impl RetryStrategy + 'static) -> Self {
        self.with_recovery(Recovery::Retry(Arc::new(strategy)))
    }

    /// Hedges with this policy.
    #[must_use]
    pub fn hedge(self, hedge: HedgePolicy) -> Self {
        self.with_recovery(Recovery::Hedge(Arc::new(hedge)))
    }

    /// Neither retries nor hedges.
    #[must_use]
    pub fn no_recovery(self) -> Self {
        self.with_recovery(Recovery::None)
    }

    /// Sets the recovery.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Uses this throttle.
    #[must_use]
    pub fn with_throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = Some(throttle);
        self
    }

    /// Limits the duration of a whole call. Needs a `Deadline` layer outside the recovery layer.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits the duration of each attempt. Needs a `Deadline` layer inside the recovery layer.
    #[must_use]
    pub const fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// Attaches protocol data for the classifier (retryable codes and the like), or one's own: one
    /// value of each type.
    #[must_use]
    pub fn with_data<T: Any + Send + Sync>(mut self, data: T) -> Self {
        let is_other = |data: &Arc<dyn Any + Send + Sync>| !data.is::<T>();
        let before = self.data.replace(Arc::new(data));
        self.more_data.extend(before);
        self.more_data.retain(is_other);
        self
    }

    /// The name of the policy.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recovery.
    #[must_use]
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The throttle.
    #[must_use]
    pub const fn throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.throttle.as_ref()
    }

    /// The limit of a whole call.
    #[must_use]
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The limit of one attempt.
    #[must_use]
    pub const fn attempt_timeout(&self) -> Option<Duration> {
        self.attempt_timeout
    }

    /// The data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        let first = self.data.as_ref()?;
        first
            .downcast_ref()
            .or_else(|| self.more_data.iter().find_map(|data| data.downcast_ref()))
    }
}

/// Finds the policy of a request. Closures `Fn(&Req) -> Option<Arc<RoutePolicy>>` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot find a policy for `{Req}`",
    note = "use a closure `|request: &{Req}| -> Option<Arc<RoutePolicy>>`, or `Routes` over a table that implements `Route<{Req}>`"
)]
pub trait Route<Req> {
    /// The policy, or `None` to use the layers' own.
    fn route(&self, request: &Req) -> Option<Arc<RoutePolicy>>;
}

#[diagnostic::do_not_recommend]
impl<F, Req> Route<Req> for F
where
    F: Fn(&Req) -> Option<Arc<RoutePolicy>>,
{
    fn route(&self, request: &Req) -> Option<Arc<RoutePolicy>> {
        self(request)
    }
}

impl<Req> Route<Req> for Arc<RoutePolicy> {
    fn route(&self, _: &Req) -> Option<Arc<RoutePolicy>> {
        Some(Self::clone(self))
    }
}

/// A handle to a table of policies that can be swapped while calls are running. Clones share the
/// table; a call keeps the policy it started with. A look-up takes no lock.
pub struct Routes<T>(Arc<ArcSwap<T>>);

impl<T> Routes<T> {
    /// Creates a handle to this table.
    #[must_use]
    pub fn new(table: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(table)))
    }

    /// The current table.
    #[must_use]
    pub fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces the table for calls that start from now on. Returns the previous one.
    pub fn swap(&self, table: T) -> Arc<T> {
        self.0.swap(Arc::new(table))
    }
}

impl<T> Clone for Routes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Routes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Routes").field(&self.load()).finish()
    }
}

impl<T: Route<Req>, Req> Route<Req> for Routes<T> {
    fn route(&self, request: &Req) -> Option<Arc<RoutePolicy>> {
        self.0.load().route(request)
    }
}
