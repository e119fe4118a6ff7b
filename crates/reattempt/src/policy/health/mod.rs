//! The health of backends: which are ejected for their results, which is the least loaded, and how
//! an ejected one returns.
//!
//! [`Pool`] is the machine for several backends. It ejects outliers as gRPC does (A50), and after
//! failures in a row; a further one only while fewer than the policy's share are, and if all are
//! ejected, or should be, all are used. Of two healthy ones it takes the one with less load:
//! attempts in flight, weighted by recent latency where that differs by more than a factor of two.
//! [`CircuitBreaker`] is the same state with one backend, which refuses instead of going elsewhere.
//!
//! Neither reads a clock or sends anything: the layers and the policy lab use them with a clock of
//! their own.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use reattempt::health::{Attempted, HealthPolicy, Outcome, Pool};
//!
//! let mut now = Instant::now();
//! let policy = HealthPolicy::standard().consecutive_failures(2);
//! let pool = Pool::new(policy, 3, now);
//! // Backend 1 fails, the others answer after a millisecond.
//! for _ in 0..100 {
//!     let sent = pool.send(now, Attempted::default()).expect("three backends");
//!     now += Duration::from_millis(1);
//!     let outcome = if sent.at() == 1 { Outcome::Failure } else { Outcome::Success };
//!     pool.ended(sent, now, outcome, None);
//! }
//! let ejected: Vec<_> = pool.status(now).iter().map(|one| one.is_ejected()).collect();
//! assert_eq!(ejected, [false, true, false]);
//! ```

mod alone;
mod breaker;
mod due;
mod ended;
mod event;
#[cfg(feature = "tokio")]
mod late;
mod ledger;
mod live;
mod member;
#[cfg(all(test, reattempt_loom))]
mod models;
mod options;
mod pool;
#[cfg(feature = "config")]
mod read;
mod send;
mod sweep;
#[cfg(test)]
mod tests;
#[cfg(feature = "tokio")]
mod waiting;

use std::time::Duration;

use crate::failure::reason::ReasonClass;
use crate::{Stage, Transparent, Verdict};

pub use breaker::{CircuitBreaker, CircuitState};
pub use event::{HealthCause, HealthChange, HealthEvent};
#[cfg(feature = "tokio")]
pub(crate) use late::Open;
pub use live::LiveHealthPolicy;
pub use options::{FailurePercentageEjection, HealthPolicy, SuccessRateEjection};
pub use pool::Pool;
pub use send::{Attempted, Sent};
#[cfg(feature = "tokio")]
pub(crate) use waiting::Waits;

/// What the end of an attempt says about its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It answered, if only to refuse the request.
    Success,
    /// It failed, or could not be reached.
    Failure,
    /// Nothing: the client did not send it, because its own body failed for example.
    Nothing,
    /// It never left the client on a connection that existed. A failure, but none
    /// [in a row](HealthPolicy::consecutive_failures): all requests of a connection end so at once
    /// when the server ends it.
    NeverSent,
    /// It was sent, and failed without an answer: usually its connection was lost. A failure, but
    /// none [in a row](HealthPolicy::consecutive_failures) if it was sent before the last of those
    /// and fails within 20 ms of it: all requests in flight on a connection end so at once.
    Lost,
    /// The attempt was dropped before there was an answer: it took at least as long as it lasted. A
    /// failure if that was long, or the backend has been silent for long: see
    /// [`HealthPolicy::consecutive_failures`].
    Dropped,
    /// The same, at its deadline: a failure if that was longer than an answer usually takes, or if
    /// no answer has come from the backend for a while.
    TimedOut,
}

impl Outcome {
    /// What a verdict says about the backend. Its answer to the request itself (not found, invalid
    /// argument) is a success: if it is retried, only one about the item that the request names (a
    /// locked document), because others are retried as failures of the server. So is one that sends
    /// the request elsewhere: a reason that is always retried. A request that this client did not
    /// send ([`ReasonClass::Request`]) says nothing.
    #[must_use]
    pub const fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Success | Verdict::Committed => Self::Success,
            Verdict::Fatal(failure) if failure.is_answer() => Self::Success,
            Verdict::Retry(failure) if failure.reason.always_retry() => Self::Success,
            Verdict::Retry(failure) if failure.is_answer() && failure.reason.is_about_item() => {
                Self::Success
            }
            Verdict::Fatal(failure) | Verdict::Retry(failure) => {
                match (failure.class(), failure.transparent, failure.stage) {
                    (ReasonClass::Request, ..) => Self::Nothing,
                    (_, Transparent::Unlimited, _) => Self::NeverSent,
                    (ReasonClass::Transient, _, Stage::InFlight) => Self::Lost,
                    _ => Self::Failure,
                }
            }
        }
    }
}

/// What is known of one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The attempts in flight.
    pub in_flight: u32,
    /// What an attempt recently took; `None` if none has ended.
    pub latency: Option<Duration>,
    /// For how long it is still ejected; zero if it may return with the next sweep. `None` if it is
    /// not ejected.
    pub ejected_for: Option<Duration>,
}

impl Status {
    /// Whether it is ejected.
    #[must_use]
    pub const fn is_ejected(&self) -> bool {
        self.ejected_for.is_some()
    }
}
