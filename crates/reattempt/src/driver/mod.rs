//! Asks and charges the throttle between the steps of the machines, for both recovery layers and
//! for simulators. So the order of the gates, and what a throttle counts, pays and gets back, has
//! one home.
//!
//! A driver does nothing else to a call: it says what follows, and [`FailedAttempt::record`] is
//! what happened. The call keeps the failure of the last record that was
//! [paid](crate::AttemptRecord::paid) for: [`count_success`] returns the price.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use reattempt::backoff::Backoff;
//! use reattempt::driver::RetryDriver;
//! use reattempt::machine::{Action, Facts, FailedAttempt, Resume};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{
//!     AttemptKind, Failure, RetryThrottle, Stage, TokenBucket, Verdict, reason,
//! };
//!
//! let strategy = MaxAttempts::new(2, Backoff::constant(Duration::from_millis(20)));
//! let bucket = TokenBucket::new(10, 100)?;
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let busy = Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::Response));
//! let facts = Facts::new(start, 1, AttemptKind::Initial);
//! let mut failed = FailedAttempt::new(facts, &busy).expect("it is a failure");
//! let mut driver = RetryDriver::default();
//! let Action::Wait(wait) = driver.failed(&mut failed, &strategy, Some(&bucket), &()) else {
//!     panic!("a second attempt follows")
//! };
//! let then = start + Duration::from_millis(20);
//! assert_eq!(wait.until, Some(then));
//! assert_eq!(bucket.milli_tokens(), Some(9000), "the failure was counted");
//! assert_eq!(failed.record().delay, Some(Duration::from_millis(20)));
//! assert_eq!(Resume::at(then, None), Resume::Send);
//! driver.sent();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hedge;
mod retry;

pub use crate::policy::throttle::{count_success, count_unsuccessful};
pub use hedge::{HedgeDriver, Refused};
pub use retry::RetryDriver;

use crate::RetryThrottle;
use crate::machine::FailedAttempt;
use crate::policy::throttle::Settled;

/// The throttle counts a failed attempt, whose record gets the fill. False if the failure is none
/// of its own.
pub(crate) fn count(throttle: &dyn RetryThrottle, failed: &mut FailedAttempt) -> bool {
    let counts = failed.counts();
    if failed.attempt() <= 1 && failed.is_final_answer() {
        throttle.first_answered();
    } else {
        count_unsuccessful(throttle, failed.attempt());
    }
    if failed.is_for_throttle() {
        if counts {
            throttle.settled(Settled::Failure(failed.failure()));
        }
        failed.milli_tokens = throttle.milli_tokens();
    }
    counts
}
