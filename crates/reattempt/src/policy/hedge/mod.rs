//! When an attempt is sent beside another.

mod bursts;
mod current;
mod ended;
mod extra_load;
mod fixed;
mod percentile;
mod survival;
mod window;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use ended::{AttemptEnd, EndedAttempt};
pub use extra_load::{ExtraLoad, InvalidExtraLoad};
pub use fixed::Fixed;
pub use percentile::{InvalidPercentile, Percentile};

use crate::attempt::Backend;
use crate::policy::strategy::CallView;
use crate::{Idempotency, OnDeadline};

/// What a hedge is decided on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HedgeView<'a> {
    /// Now.
    pub now: Instant,
    /// The attempts of the call so far, the first included; a hedge that was refused counts.
    pub attempts: u32,
    /// Those of them that are in flight.
    pub in_flight: u32,
    /// The time since the first attempt was sent. Zero when the first hedge is planned.
    pub elapsed: Duration,
    call: Option<&'a dyn CallView>,
    can_copy: bool,
}

impl<'a> HedgeView<'a> {
    /// One attempt of an unknown call was sent now.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            now,
            attempts: 1,
            in_flight: 1,
            elapsed: Duration::ZERO,
            call: None,
            can_copy: true,
        }
    }

    /// Of this call; `first` is its first attempt's context.
    #[must_use]
    pub const fn of(mut self, first: &'a dyn CallView) -> Self {
        self.call = Some(first);
        self
    }

    /// Whether the request can be copied, as most can. If not, its hedge is refused later, and
    /// [`HedgeDelay::admit`] is not asked: what that admits counts as sent.
    #[must_use]
    pub const fn if_copied(mut self, can_copy: bool) -> Self {
        self.can_copy = can_copy;
        self
    }

    pub(crate) const fn can_copy(&self) -> bool {
        self.can_copy
    }

    /// The name of the call's [`RoutePolicy`](super::RoutePolicy); empty without one.
    #[must_use]
    pub fn route(&self) -> &'a str {
        self.call.map_or("", CallView::route)
    }

    /// Where the first attempt was sent, if that was reported.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        self.call?.backend()
    }
}

impl From<Instant> for HedgeView<'_> {
    fn from(now: Instant) -> Self {
        Self::new(now)
    }
}

/// Whether a hedge whose delay has passed is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HedgeAdmission {
    /// Now.
    Send,
    /// Not before this much later, when it is asked again.
    After(Duration),
    /// Not for this call.
    Never,
}

/// When to send the next hedge. Shared by many calls; no method blocks.
///
/// [`Fixed`], [`ExtraLoad`] and [`Percentile`] are such delays.
pub trait HedgeDelay: fmt::Debug + Send + Sync {
    /// The delay from now until one more attempt, planned when the previous one was sent. `None`:
    /// not now, so that none is sent beside those in flight.
    fn delay(&self, view: &HedgeView<'_>) -> Option<Duration>;

    /// The delay has passed and no attempt has ended the call: whether the hedge is sent. What it
    /// answers [`HedgeAdmission::Send`] to may still be refused by the throttle. It is not asked
    /// about a request that cannot be copied.
    fn admit(&self, view: &HedgeView<'_>) -> HedgeAdmission {
        let _ = view;
        HedgeAdmission::Send
    }

    /// The delay, if it is always the same.
    fn fixed(&self) -> Option<Duration> {
        None
    }

    /// Whether it is fed. If not, no clock is read for it. Always the same answer.
    fn learns(&self) -> bool {
        false
    }

    /// An attempt of a call that may be hedged ended. Called once for each first attempt and each
    /// that was sent after the delay, if it left the client and no layer below made its response;
    /// only if it [`learns`](Self::learns). An attempt that follows a failure says nothing about
    /// hedging.
    fn ended(&self, attempt: &EndedAttempt) {
        let _ = attempt;
    }

    /// Not for implementations. For a call that succeeds at its first poll: what such an attempt is
    /// known beforehand to be is known to the compiler here.
    #[doc(hidden)]
    #[cfg(feature = "tokio")]
    fn succeeded_at_once(&self) {
        self.ended(const { &EndedAttempt::at_once(AttemptEnd::Succeeded) });
    }

    /// Not for implementations. The same for a first attempt that was pending, and succeeded now.
    #[doc(hidden)]
    #[cfg(feature = "tokio")]
    fn first_succeeded(&self, took: Duration, now: Instant) {
        self.ended(&EndedAttempt::now(1, took, now, AttemptEnd::Succeeded));
    }
}

/// Sends several attempts of a call without waiting for a failure (A6, Hedging Policy).
///
/// The classifier decides which failures are fatal. One that was never sent
/// ([`Stage::Dispatch`](crate::Stage::Dispatch)) ends no call while another attempt is in flight.
#[derive(Clone, Debug)]
pub struct HedgePolicy {
    max_attempts: u32,
    delay: Arc<dyn HedgeDelay>,
    learns: bool,
    on_deadline: OnDeadline,
    only_idempotent: bool,
}

/// The maximum number of attempts of one hedged call (A6's own limit is 5): a call has room for the
/// reports of this many attempts in flight.
pub const MOST_HEDGED_ATTEMPTS: u32 = 8;

impl HedgePolicy {
    /// At most `max_attempts` in total, the first included (clamped to between 1 and
    /// [`MOST_HEDGED_ATTEMPTS`]), each `delay` after the previous one. Hedges idempotent calls
    /// only.
    #[must_use]
    pub fn new(max_attempts: u32, delay: Duration) -> Self {
        Self::with_delay(max_attempts, Arc::new(Fixed(delay)))
    }

    /// Uses another hedge delay.
    #[must_use]
    pub fn with_delay(max_attempts: u32, delay: Arc<dyn HedgeDelay>) -> Self {
        let max_attempts = max_attempts.clamp(1, MOST_HEDGED_ATTEMPTS);
        Self {
            max_attempts,
            learns: delay.learns(),
            delay,
            on_deadline: OnDeadline::Cap,
            only_idempotent: true,
        }
    }

    /// The same policy with another hedge delay.
    #[must_use]
    pub fn delayed_by(self, delay: Arc<dyn HedgeDelay>) -> Self {
        Self {
            learns: delay.learns(),
            delay,
            ..self
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
    pub fn delay(&self) -> &Arc<dyn HedgeDelay> {
        &self.delay
    }

    /// Whether the delay is fed: [`HedgeDelay::learns`].
    #[must_use]
    #[inline]
    pub const fn learns(&self) -> bool {
        self.learns
    }

    /// The delay of the first hedge of such a call, if there is one.
    #[cfg(feature = "tokio")]
    pub(crate) fn first_delay(
        &self,
        idempotency: Idempotency,
        view: &HedgeView<'_>,
    ) -> Option<Duration> {
        if self.max_attempts > 1 && self.hedges(idempotency) {
            self.delay.delay(view)
        } else {
            None
        }
    }

    /// Whether the delay is fed with such a call: one that is never hedged would move the delay of
    /// those that are.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) const fn learns_of(&self, idempotency: Idempotency) -> bool {
        self.learns && self.hedges(idempotency)
    }

    /// Whether several attempts of such a call may be in flight at once.
    pub(crate) const fn hedges(&self, idempotency: Idempotency) -> bool {
        !self.only_idempotent || idempotency.is_idempotent()
    }

    pub(crate) const fn deadline_choice(&self) -> OnDeadline {
        self.on_deadline
    }
}

/// At most some 136 years, in nanoseconds.
#[inline]
fn nanos_of(time: Duration) -> u64 {
    let seconds = time.as_secs().min(u64::from(u32::MAX));
    seconds * 1_000_000_000 + u64::from(time.subsec_nanos())
}

/// A base for arithmetic in tests.
#[cfg(test)]
fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "the clock is virtual")]
    *START.get_or_init(Instant::now)
}
