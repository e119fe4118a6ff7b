//! Strategies: whether and when a failed call is sent again (RFC 0049, Retry Strategies).

mod attempts;
mod best_effort;
mod controlled_backoff;
mod extended;
mod fail_fast;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use attempts::{Attempts, Once, Standard};
pub use best_effort::BestEffort;
pub use controlled_backoff::ControlledBackoff;
pub use extended::Extended;
#[doc(hidden)]
pub use fail_fast::FailFast;

use crate::findings::Backend;
use crate::{CallContext, Failure, OnDeadline};

/// An error from a strategy that was asked elsewhere.
pub type StrategyError = Box<dyn std::error::Error + Send + Sync>;

/// A decision that is still being made: `Some(delay)` sends again after the delay, `None` does not,
/// and an error fails the call at once.
pub type Deferred =
    Pin<Box<dyn Future<Output = Result<Option<Duration>, StrategyError>> + Send + 'static>>;

/// What a strategy says of a failed attempt (RFC 0049's RetryAction).
pub enum Decision {
    /// Do not send again.
    Stop,
    /// Do not send again: as many attempts were made as this failure allows. Stops as
    /// [`RetryStrategy::max_attempts`] does, for strategies whose maximum depends on what happened.
    Exhausted,
    /// Send again after this delay; zero means at once.
    After(Duration),
    /// Ask elsewhere first (RFC 0049's `Future<RetryAction>`).
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

/// All that a strategy can go by. Strategies are shared by many calls and keep no state of one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RetryView<'a> {
    /// Why the attempt failed.
    pub failure: &'a Failure,
    /// When it failed.
    pub now: Instant,
    /// Retries already made; transparent ones are not counted.
    pub retries: u32,
    /// Retries made since the last server pushback (A6: the back-off starts anew after one);
    /// equal to `retries` while there was none.
    pub retries_since_pushback: u32,
    /// Failures in a row with this very code (or, without codes, this reason), this one included.
    pub streak: u32,
    /// When the first failure of this streak arrived.
    pub streak_since: Instant,
    /// When the first failure of the call arrived.
    pub failing_since: Instant,
    /// The delay before the attempt that failed; `None` before the first retry.
    pub previous_delay: Option<Duration>,
    /// Where the attempt went, if the transport said.
    pub backend: Option<&'a Backend>,
    /// The attempt's context: idempotency, policy, user data.
    pub context: &'a CallContext,
}

/// For unit tests of a strategy: a view of your own making.
///
/// ```
/// use std::time::{Duration, Instant};
/// use reattempt_core::strategy::BestEffort;
/// use reattempt_core::{CallContext, Decision, Failure, RetryStrategy, RetryView, Stage, reason};
///
/// let failure = Failure::new(reason::KV_LOCKED, Stage::Response);
/// let context = CallContext::default();
/// # #[allow(clippy::disallowed_methods)]
/// let view = RetryView::new(&failure, Instant::now(), &context).retries(3);
/// assert!(matches!(BestEffort::new().decide(&view), Decision::After(delay) if delay == Duration::from_millis(8)));
/// ```
impl<'a> RetryView<'a> {
    /// The first failure of a call, at `now`: no retry was made yet.
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

    /// After so many retries, and no server pushback among them.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self.retries_since_pushback = retries;
        self
    }

    /// So many of the retries were made since the last server pushback.
    #[must_use]
    pub const fn retries_since_pushback(mut self, retries: u32) -> Self {
        self.retries_since_pushback = retries;
        self
    }

    /// The same failure so many times in a row, this one included, the first of them at `since`.
    #[must_use]
    pub const fn streak(mut self, streak: u32, since: Instant) -> Self {
        self.streak = streak;
        self.streak_since = since;
        self
    }

    /// The call's first failure arrived at `since`.
    #[must_use]
    pub const fn failing_since(mut self, since: Instant) -> Self {
        self.failing_since = since;
        self
    }

    /// The delay before the attempt that failed.
    #[must_use]
    pub const fn previous_delay(mut self, delay: Duration) -> Self {
        self.previous_delay = Some(delay);
        self
    }

    /// Where the attempt went.
    #[must_use]
    pub const fn backend(mut self, backend: &'a Backend) -> Self {
        self.backend = Some(backend);
        self
    }
}

/// Which of two failures a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The one that was held from an earlier attempt.
    Held,
    /// The one that just arrived.
    New,
}

/// Decides whether and when a failed call is sent again.
///
/// Some things are not up to a strategy, because they are the same for all: reasons that always
/// retry and transparent failures pass it by, a request that is not idempotent is not sent again
/// where its first attempt may have been carried out, and server pushback, the throttle and the
/// deadline have their say afterwards. All of that lives in
/// [`RetryMachine`](crate::machine::RetryMachine).
///
/// [`Extended`] extends a strategy for single reasons. By anything else, such as the data that an
/// application put on the call (RFC 0049, Accessible Context), extend it by calling it:
///
/// ```
/// use reattempt_core::strategy::BestEffort;
/// use reattempt_core::{Decision, RetryStrategy, RetryView};
///
/// /// The web layer stamps it: `request.context_mut().set_data(Robot)`.
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
    /// Whether and when to send again.
    fn decide(&self, view: &RetryView<'_>) -> Decision;

    /// The most attempts of a call, the first included; `None` is no limit but the deadline. Forced
    /// and transparent attempts pass it by.
    fn max_attempts(&self) -> Option<u32> {
        None
    }

    /// What to do with a delay that does not fit before the deadline.
    fn on_deadline(&self) -> OnDeadline {
        OnDeadline::Cap
    }

    /// How long to wait after `failure`, where the server asked for `asked` and this strategy said
    /// `own`. By default exactly what the server asked for (A6, Pushback).
    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        let _ = (failure, own);
        asked
    }

    /// True when the first failure is kept to be weighed against later ones by
    /// [`RetryStrategy::surface`]; `false` (the default) returns the last.
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
