//! Strategies: whether and when a failed call is sent again (RFC 0049, Retry Strategies). Here:
//! what a strategy decides, and RFC 0049's own, best effort.

mod attempts;
mod by_reference;
mod call_view;
mod controlled_backoff;
mod extended;
mod never_retry;
#[cfg(test)]
mod tests;
mod view;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

pub use attempts::{MaxAttempts, RetryOnce};
pub use call_view::CallView;
pub use controlled_backoff::ControlledBackoff;
pub use extended::Extended;
pub use never_retry::NeverRetry;

use crate::attempt::Backend;
use crate::policy::backoff::{Backoff, Jitter};
use crate::{CallDeadline, Failure, OnDeadline};

/// An error from a deferred decision.
pub type StrategyError = Box<dyn std::error::Error + Send + Sync>;

/// A deferred decision: `Some(delay)` retries after the delay, `None` does not retry, and an error
/// fails the call at once.
pub type Deferred =
    Pin<Box<dyn Future<Output = Result<Option<Duration>, StrategyError>> + Send + 'static>>;

/// A strategy's decision about a failed attempt (RFC 0049's RetryAction).
#[non_exhaustive]
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
/// that an application attached to the call (RFC 0049, Accessible Context), wrap a strategy.
/// Forward every method, not only `decide`: the defaults below are not those of the wrapped
/// strategy. In a wrapper without `on_deadline` a [`MaxAttempts`] waits for the deadline
/// ([`OnDeadline::Cap`]) where by itself, over HTTP, it returns the server's failure at once.
///
/// ```
/// use std::time::Duration;
/// use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Surface};
///
/// /// Set by the web layer: `request.context_mut().set_data(Robot)`.
/// struct Robot;
///
/// #[derive(Debug)]
/// struct NotForRobots<S>(S);
///
/// impl<S: RetryStrategy> RetryStrategy for NotForRobots<S> {
///     fn decide(&self, view: &RetryView<'_>) -> Decision {
///         if view.data::<Robot>().is_some() {
///             return Decision::Stop;
///         }
///         self.0.decide(view)
///     }
///
///     fn max_attempts(&self) -> Option<u32> {
///         self.0.max_attempts()
///     }
///
///     fn on_deadline(&self) -> Option<OnDeadline> {
///         self.0.on_deadline()
///     }
///
///     fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
///         self.0.delay_asked(failure, asked, own)
///     }
///
///     fn holds(&self) -> bool {
///         self.0.holds()
///     }
///
///     fn surface(&self, held: &Failure, new: &Failure) -> Surface {
///         self.0.surface(held, new)
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

    /// What to do if a delay does not fit before the deadline; `None` leaves it to the protocol
    /// ([`Classify::on_deadline`](crate::Classify::on_deadline)). By default [`OnDeadline::Cap`]
    /// (RFC 0049, Capping the Retry Duration).
    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(OnDeadline::Cap)
    }

    /// The delay after `failure`, if the server asked for `asked` and this strategy chose `own`. By
    /// default exactly the server's (A6, Pushback). Without [`max_attempts`](Self::max_attempts)
    /// only the back-off bounds how many attempts there are: the delay is then `own` at least, and
    /// no pushback starts the back-off again. A strategy of your own without a maximum should
    /// return `own` at least too: a server that asks for no delay would otherwise be sent requests
    /// as fast as it answers.
    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        let _ = failure;
        match self.max_attempts() {
            Some(_) => asked,
            None => asked.max(own),
        }
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
    /// `retries` if there was none, or if the strategy has no maximum of attempts.
    pub retries_since_pushback: u32,
    /// Consecutive failures with this code (or, without codes, this reason), this one included.
    pub streak: u32,
    /// When the first failure of this streak arrived.
    pub streak_since: Instant,
    /// When the first failure of the call arrived.
    pub failing_since: Instant,
    /// The delay before the failed attempt; `None` before the first retry, and where the back-off
    /// restarts after a server's pushback (`retries_since_pushback` is 0).
    pub previous_delay: Option<Duration>,
    /// Where the attempt was sent, if the transport reported it.
    pub backend: Option<&'a Backend>,
    /// Whether the request may take effect twice.
    pub idempotent: bool,
    /// The deadline of the call.
    pub deadline: Option<CallDeadline>,
    /// The call's history and its user data: see [`info`](Self::info) and [`data`](Self::data).
    pub call: &'a dyn CallView,
}

/// Retries until success or the deadline: 1, 2, 4 … 256, then 500 ms (RFC 0049, Best Effort).
///
/// The default of the key-value preset and of Couchbase's services. It has no maximum of attempts:
/// put a `Deadline` layer outside.
#[derive(Clone, Debug)]
pub struct BestEffort {
    backoff: Backoff,
    on_deadline: OnDeadline,
}

impl BestEffort {
    /// With RFC 0049's delays, 1 to 500 ms, without jitter.
    #[must_use]
    pub const fn new() -> Self {
        let (from, to) = (Duration::from_millis(1), Duration::from_millis(500));
        Self::with_backoff(Backoff::exponential(from, to).jitter(Jitter::None))
    }

    /// Uses another back-off (RFC 0049's "different backoff calculator"): one of [`Backoff`]'s, or
    /// a custom calculation with [`Backoff::calculated`].
    #[must_use]
    pub const fn with_backoff(backoff: Backoff) -> Self {
        Self {
            backoff,
            on_deadline: OnDeadline::Cap,
        }
    }

    /// What to do if a delay does not fit; [`OnDeadline::Cap`] by default.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }
}

impl Default for BestEffort {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryStrategy for BestEffort {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        Decision::After(self.backoff.delay(view.retries, view.previous_delay))
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(self.on_deadline)
    }
}
