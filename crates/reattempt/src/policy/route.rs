//! Policies of single routes, and a table of them that can be swapped while calls are running.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::{Idempotency, OnDeadline, RetryStrategy, RetryThrottle};

/// How calls of a route recover from failure.
#[derive(Clone, Debug, Default)]
pub enum Recovery {
    /// As configured on the recovery layer.
    #[default]
    Default,
    /// No recovery. Transparent failures and always-retry reasons are still retried.
    None,
    /// Retries after a failure.
    Retry(Arc<dyn RetryStrategy>),
    /// Hedges before a failure.
    Hedge(Arc<HedgePolicy>),
}

/// When to send the next hedge. Shared by many calls and independent of any clock.
pub trait HedgeDelay: fmt::Debug + Send + Sync {
    /// The delay between sending one attempt and the next; `sent` attempts were sent so far.
    fn delay(&self, sent: u32) -> Duration;
}

/// The same delay before every hedge (A6, Hedging Policy); zero sends all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(pub Duration);

impl HedgeDelay for Fixed {
    fn delay(&self, _: u32) -> Duration {
        self.0
    }
}

/// Sends several attempts of a call without waiting for a failure (A6, Hedging Policy).
///
/// The classifier decides which failures are fatal.
#[derive(Clone, Debug)]
pub struct HedgePolicy {
    max_attempts: u32,
    delay: Arc<dyn HedgeDelay>,
    on_deadline: OnDeadline,
    only_idempotent: bool,
}

/// The maximum number of attempts of one hedged call, so that all of them can be in flight and
/// still report.
pub const MOST_HEDGED_ATTEMPTS: u32 = 16;

impl HedgePolicy {
    /// At most `max_attempts` in total, the first included (clamped to between 1 and
    /// [`MOST_HEDGED_ATTEMPTS`]), each `delay` after the previous one. Hedges idempotent calls
    /// only.
    #[must_use]
    pub fn new(max_attempts: u32, delay: Duration) -> Self {
        Self::with_delay(max_attempts, Arc::new(Fixed(delay)))
    }

    /// Uses a custom hedge delay.
    #[must_use]
    pub fn with_delay(max_attempts: u32, delay: Arc<dyn HedgeDelay>) -> Self {
        let max_attempts = max_attempts.clamp(1, MOST_HEDGED_ATTEMPTS);
        Self {
            max_attempts,
            delay,
            on_deadline: OnDeadline::Cap,
            only_idempotent: true,
        }
    }

    /// What to do when all attempts have failed and the next does not fit before the deadline.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }

    /// Hedges non-idempotent calls too, as a service config's `hedgingPolicy` does: with it the
    /// owner of the method states that it may be carried out several times (A6, Hedging Policy). By
    /// default such a call has at most one attempt in flight, and another follows only after a
    /// failure that is known to have had no effect.
    #[must_use]
    pub const fn hedge_non_idempotent(mut self) -> Self {
        self.only_idempotent = false;
        self
    }

    /// The maximum number of attempts, the first included.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The delay between one attempt and the next.
    #[must_use]
    pub fn delay(&self, sent: u32) -> Duration {
        self.delay.delay(sent)
    }

    /// Whether several attempts of such a call may be in flight at once.
    pub(crate) const fn hedges(&self, idempotency: Idempotency) -> bool {
        !self.only_idempotent || idempotency.is_idempotent()
    }

    pub(crate) const fn deadline_choice(&self) -> OnDeadline {
        self.on_deadline
    }
}

/// The policy of one route or method.
///
/// The caller's own setting overrides the policy, and the policy overrides the layer. Of two time
/// limits the earlier applies, except that in the presets for clients the policy's replaces the
/// preset's ([`DeadlineLayer::unless_policy`](crate::DeadlineLayer::unless_policy)).
#[derive(Clone, Default)]
pub struct RoutePolicy {
    name: Cow<'static, str>,
    recovery: Recovery,
    throttle: Option<Arc<dyn RetryThrottle>>,
    timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    data: Option<Arc<dyn Any + Send + Sync>>,
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
    /// A policy that changes nothing; the name appears in records and logs.
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

    /// Attaches protocol data for the classifier (retryable codes and the like).
    #[must_use]
    pub fn with_data<T: Any + Send + Sync>(mut self, data: T) -> Self {
        self.data = Some(Arc::new(data));
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

    /// The protocol data, if it has this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.data.as_ref()?.downcast_ref()
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
/// table; a call keeps the policy it started with.
pub struct Routes<T>(Arc<RwLock<Arc<T>>>);

impl<T> Routes<T> {
    /// Creates a handle to this table.
    #[must_use]
    pub fn new(table: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(table))))
    }

    /// The current table.
    #[must_use]
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the table for calls that start from now on. Returns the previous one.
    pub fn swap(&self, table: T) -> Arc<T> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, Arc::new(table))
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
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .route(request)
    }
}
