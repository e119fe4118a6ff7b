//! Strategies: whether and when a failed call is sent again (RFC 0049, Retry Strategies).

mod attempts;
mod best_effort;
mod controlled_backoff;
mod extended;
mod never_retry;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use attempts::{MaxAttempts, RetryOnce, Standard};
pub use best_effort::BestEffort;
pub use controlled_backoff::ControlledBackoff;
pub use extended::Extended;
pub use never_retry::NeverRetry;

use crate::call::attempts::Backend;
use crate::{CallContext, Failure, OnDeadline};

/// An error from a deferred decision.
pub type StrategyError = Box<dyn std::error::Error + Send + Sync>;

/// A deferred decision: `Some(delay)` retries after the delay, `None` does not retry, and an error
/// fails the call at once.
pub type Deferred =
    Pin<Box<dyn Future<Output = Result<Option<Duration>, StrategyError>> + Send + 'static>>;

/// A strategy's decision about a failed attempt (RFC 0049's RetryAction).
pub enum Decision {
    /// Do not retry.
    Stop,
    /// Do not retry: the maximum number of attempts for this failure was made. Stops as
    /// [`RetryStrategy::max_attempts`] does, for strategies whose maximum depends on earlier
    /// failures.
    Exhausted,
    /// Retry after this delay; zero means at once.
    After(Duration),
    /// Decide asynchronously (RFC 0049's `Future<RetryAction>`).
    Defer(Deferred),
}

impl Debug for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stop => f.write_str("Stop"),
            Self::Exhausted => f.write_str("Exhausted"),
            Self::After(delay) => f.debug_tuple("After").field(delay).finish(),
            Self::Defer(_) => f.write_str("Defer"),
        }
    }
}

/// The input of a strategy. Strategies are shared by many calls and keep no state of a single call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RetryView<'a> {
    /// Why the attempt failed.
    pub failure: &'a Failure,
    /// When it failed.
    pub now: Instant,
    /// Retries already made; transparent retries are not counted.
    pub retries: u32,
    /// Retries made since the last server pushback (A6: the back-off restarts after one); equal to
    /// `retries` if there was none.
    pub retries_since_pushback: u32,
    /// Consecutive failures with this code (or, without codes, this reason), this one included.
    pub streak: u32,
    /// When the first failure of this streak arrived.
    pub streak_since: Instant,
    /// When the first failure of the call arrived.
    pub failing_since: Instant,
    /// The delay before the failed attempt; `None` before the first retry.
    pub previous_delay: Option<Duration>,
    /// Where the attempt was sent, if the transport reported it.
    pub backend: Option<&'a Backend>,
    /// The attempt's context: idempotency, policy, user data.
    pub context: &'a CallContext,
}

/// Builders for unit tests of a strategy.
///
/// ```
/// use std::time::Instant;
/// use reattempt::strategy::BestEffort;
/// use reattempt::{CallContext, Decision, Failure, RetryStrategy, RetryView, Stage, reason};
///
/// let failure = Failure::new(reason::KV_LOCKED, Stage::Response);
/// let context = CallContext::default();
/// # #[allow(clippy::disallowed_methods)]
/// let view = RetryView::new(&failure, Instant::now(), &context).retries(3);
/// assert!(matches!(BestEffort::new().decide(&view), Decision::After(d) if d.as_millis() == 8));
/// ```
impl<'a> RetryView<'a> {
    /// The first failure of a call, at `now`, with no retry made yet.
    #[must_use]
    pub const fn new(failure: &'a Failure, now: Instant, context: &'a CallContext) -> Self {
        Self {
            failure,
            now,
            retries: 0,
            retries_since_pushback: 0,
            streak: 1,
            streak_since: now,
            failing_since: now,
            previous_delay: None,
            backend: None,
            context,
        }
    }

    /// Sets the number of retries made, none of them after a server pushback.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self.retries_since_pushback = retries;
        self
    }

    /// Sets how many of the retries were made since the last server pushback.
    #[must_use]
    pub const fn retries_since_pushback(mut self, retries: u32) -> Self {
        self.retries_since_pushback = retries;
        self
    }

    /// Sets how often the same failure occurred in a row, this one included; the first was at
    /// `since`.
    #[must_use]
    pub const fn streak(mut self, streak: u32, since: Instant) -> Self {
        self.streak = streak;
        self.streak_since = since;
        self
    }

    /// Sets when the call's first failure arrived.
    #[must_use]
    pub const fn failing_since(mut self, since: Instant) -> Self {
        self.failing_since = since;
        self
    }

    /// Sets the delay before the failed attempt.
    #[must_use]
    pub const fn previous_delay(mut self, delay: Duration) -> Self {
        self.previous_delay = Some(delay);
        self
    }

    /// Sets where the attempt was sent.
    #[must_use]
    pub const fn backend(mut self, backend: &'a Backend) -> Self {
        self.backend = Some(backend);
        self
    }
}

/// Which of two failures a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The failure held from an earlier attempt.
    Held,
    /// The failure that just arrived.
    New,
}

/// Decides whether and when a failed call is retried.
///
/// Some rules are the same for all strategies and do not depend on them: always-retry reasons and
/// transparent failures bypass them, a non-idempotent request is not sent again if an earlier
/// attempt may have been carried out, and server pushback, the throttle and the deadline apply
/// afterwards. [`RetryMachine`](crate::machine::RetryMachine) implements these rules.
///
/// [`Extended`] extends a strategy for single reasons. To decide by anything else, such as data
/// that an application attached to the call (RFC 0049, Accessible Context), wrap a strategy:
///
/// ```
/// use reattempt::strategy::BestEffort;
/// use reattempt::{Decision, RetryStrategy, RetryView};
///
/// /// Set by the web layer: `request.context_mut().set_data(Robot)`.
/// struct Robot;
///
/// #[derive(Debug, Default)]
/// struct NotForRobots(BestEffort);
///
/// impl RetryStrategy for NotForRobots {
///     fn decide(&self, view: &RetryView<'_>) -> Decision {
///         if view.context.data::<Robot>().is_some() {
///             return Decision::Stop;
///         }
///         self.0.decide(view)
///     }
/// }
/// ```
pub trait RetryStrategy: Debug + Send + Sync {
    /// Decides whether and when to retry.
    fn decide(&self, view: &RetryView<'_>) -> Decision;

    /// The maximum number of attempts of a call, the first included; `None` means no limit but the
    /// deadline. Forced and transparent attempts are not limited by it.
    fn max_attempts(&self) -> Option<u32> {
        None
    }

    /// What to do if a delay does not fit before the deadline.
    fn on_deadline(&self) -> OnDeadline {
        OnDeadline::Cap
    }

    /// The delay after `failure`, if the server asked for `asked` and this strategy chose `own`. By
    /// default exactly the server's (A6, Pushback).
    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        let _ = (failure, own);
        asked
    }

    /// True to keep the first failure and compare it with later ones in [`RetryStrategy::surface`];
    /// `false` (the default) returns the last.
    fn holds(&self) -> bool {
        false
    }

    /// Which failure the call returns if it ends now.
    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        let _ = (held, new);
        Surface::New
    }
}

macro_rules! by_reference {
    ($($t:ty),*) => {$(
        impl<S: RetryStrategy + ?Sized> RetryStrategy for $t {
            fn decide(&self, view: &RetryView<'_>) -> Decision {
                (**self).decide(view)
            }
            fn max_attempts(&self) -> Option<u32> {
                (**self).max_attempts()
            }
            fn on_deadline(&self) -> OnDeadline {
                (**self).on_deadline()
            }
            fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
                (**self).delay_asked(failure, asked, own)
            }
            fn holds(&self) -> bool {
                (**self).holds()
            }
            fn surface(&self, held: &Failure, new: &Failure) -> Surface {
                (**self).surface(held, new)
            }
        }
    )*};
}
by_reference!(Arc<S>, Box<S>);
