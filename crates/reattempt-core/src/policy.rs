//! Policies of single routes, and the table that is swapped live.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::{Idempotency, OnDeadline, RetryStrategy, RetryThrottle};

/// How a route's calls recover from failure.
#[derive(Clone, Debug, Default)]
pub enum Recovery {
    /// As the recovery layer was built.
    #[default]
    Default,
    /// Not at all. Transparent failures and reasons that always retry are still mended.
    None,
    /// By sending again after a failure.
    Retry(Arc<dyn RetryStrategy>),
    /// By sending ahead of a failure.
    Hedge(Arc<HedgePolicy>),
}

/// When the next hedge goes out. Shared by many calls; knows no clock of its own.
pub trait HedgeDelay: fmt::Debug + Send + Sync {
    /// The delay from sending one attempt to sending the next; `sent` attempts are out or done.
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

/// Sending a call several times without waiting for a failure (A6, Hedging Policy).
///
/// Which failures are fatal is the classifier's word.
#[derive(Clone, Debug)]
pub struct HedgePolicy {
    max_attempts: u32,
    delay: Arc<dyn HedgeDelay>,
    on_deadline: OnDeadline,
    only_idempotent: bool,
}

/// The most attempts of one hedged call: what can be out at once and still report its findings.
pub const MOST_HEDGED_ATTEMPTS: u32 = 16;

impl HedgePolicy {
    /// At most `max_attempts` in all, the first included (brought within 1 and
    /// [`MOST_HEDGED_ATTEMPTS`]), each `delay` after the one before, of idempotent calls only.
    #[must_use]
    pub fn new(max_attempts: u32, delay: Duration) -> Self {
        Self::with_delay(max_attempts, Arc::new(Fixed(delay)))
    }

    /// With another kind of delay.
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

    /// What to do when all attempts out have failed and the next does not fit before the deadline.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }

    /// Calls that are not idempotent are hedged too, as by a service config's `hedgingPolicy`, with
    /// which the owner of the method says that it may be carried out several times (A6, Hedging
    /// Policy). By default at most one attempt of such a call is out, and another follows only a
    /// failure that says that nothing happened.
    #[must_use]
    pub const fn hedge_non_idempotent(mut self) -> Self {
        self.only_idempotent = false;
        self
    }

    /// The most attempts, the first included.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The delay from one attempt to the next.
    #[must_use]
    pub fn delay(&self, sent: u32) -> Duration {
        self.delay.delay(sent)
    }

    /// May several attempts of such a call be out at once?
    pub(crate) const fn hedges(&self, idempotency: Idempotency) -> bool {
        !self.only_idempotent || idempotency.is_idempotent()
    }

    pub(crate) const fn deadline_choice(&self) -> OnDeadline {
        self.on_deadline
    }
}

/// The policy of one route or method: what the layers do with its calls.
///
/// The caller's own stamp beats the policy, the policy beats the layer; of two time limits the
/// earlier counts.
#[derive(Clone, Default)]
pub struct RoutePolicy {
    name: Cow<'static, str>,
    recovery: Recovery,
    throttle: Option<Arc<dyn RetryThrottle>>,
    call_limit: Option<Duration>,
    attempt_limit: Option<Duration>,
    data: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutePolicy")
            .field("name", &self.name)
            .field("recovery", &self.recovery)
            .field("throttle", &self.throttle)
            .field("call_limit", &self.call_limit)
            .field("attempt_limit", &self.attempt_limit)
            .finish_non_exhaustive()
    }
}

impl RoutePolicy {
    /// A policy that changes nothing yet; its name is for records and logs.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Retries by this strategy.
    #[must_use]
    pub fn retry(self, strategy: impl RetryStrategy + 'static) -> Self {
        self.recovery(Recovery::Retry(Arc::new(strategy)))
    }

    /// Hedges.
    #[must_use]
    pub fn hedge(self, hedge: HedgePolicy) -> Self {
        self.recovery(Recovery::Hedge(Arc::new(hedge)))
    }

    /// Neither retries nor hedges.
    #[must_use]
    pub fn no_recovery(self) -> Self {
        self.recovery(Recovery::None)
    }

    /// Recovers in this way.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Counts in this throttle.
    #[must_use]
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.throttle = Some(throttle);
        self
    }

    /// Gives a whole call this long. Needs a `Deadline` layer outside the recovery layer.
    #[must_use]
    pub const fn call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = Some(limit);
        self
    }

    /// Gives each attempt this long. Needs a `Deadline` layer inside the recovery layer.
    #[must_use]
    pub const fn attempt_limit(mut self, limit: Duration) -> Self {
        self.attempt_limit = Some(limit);
        self
    }

    /// Carries data of the protocol, which its classifier reads (retryable codes and the like).
    #[must_use]
    pub fn data<T: Any + Send + Sync>(mut self, data: T) -> Self {
        self.data = Some(Arc::new(data));
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it recovers.
    #[must_use]
    pub const fn get_recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Its throttle.
    #[must_use]
    pub const fn get_throttle(&self) -> Option<&Arc<dyn RetryThrottle>> {
        self.throttle.as_ref()
    }

    /// How long a whole call may take.
    #[must_use]
    pub const fn get_call_limit(&self) -> Option<Duration> {
        self.call_limit
    }

    /// How long one attempt may take.
    #[must_use]
    pub const fn get_attempt_limit(&self) -> Option<Duration> {
        self.attempt_limit
    }

    /// The protocol's data, if it is of this type.
    #[must_use]
    pub fn get_data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.data.as_ref()?.downcast_ref()
    }
}

/// Finds the policy of a request. Closures `Fn(&Req) -> Option<Arc<RoutePolicy>>` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot find a policy for `{Req}`",
    note = "use a closure `|request: &{Req}| -> Option<Arc<RoutePolicy>>`, or `Routes` over a table that implements `Route<{Req}>`"
)]
pub trait Route<Req> {
    /// The policy, or `None` to leave the call to the layers' own.
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

/// A handle on a table of policies that can be swapped while calls go on. Clones share the
/// table; a call keeps the policy it started with.
pub struct Routes<T>(Arc<RwLock<Arc<T>>>);

impl<T> Routes<T> {
    /// A handle on this table.
    #[must_use]
    pub fn new(table: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(table))))
    }

    /// The table in force.
    #[must_use]
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another table in force for calls that start from now on.
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
