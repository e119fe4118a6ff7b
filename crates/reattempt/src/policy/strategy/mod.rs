//! Strategies: whether and when a failed call is sent again (RFC 0049, Retry Strategies).

mod attempts;
mod best_effort;
mod controlled_backoff;
mod extended;
mod never_retry;
#[cfg(test)]
mod tests;
mod view;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use attempts::{MaxAttempts, RetryOnce, Standard};
pub use best_effort::BestEffort;
pub use controlled_backoff::ControlledBackoff;
pub use extended::Extended;
pub use never_retry::NeverRetry;
pub use view::{CallView, RetryView};

use crate::{Failure, OnDeadline};

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
///         if view.data::<Robot>().is_some() {
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

    /// What to do if a delay does not fit before the deadline; `None` leaves it to the protocol
    /// ([`Classify::on_deadline`](crate::Classify::on_deadline)). By default [`OnDeadline::Cap`]
    /// (RFC 0049, Capping the Retry Duration).
    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(OnDeadline::Cap)
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
            fn on_deadline(&self) -> Option<OnDeadline> {
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
