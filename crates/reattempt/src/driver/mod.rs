//! Asks and charges the throttle between the steps of the machines, for both recovery layers and
//! for simulators. So the order of the gates, and what a throttle counts, pays and gets back, has
//! one home.
//!
//! A driver does nothing else to a call: it says what follows, and writes what happened into
//! [`FailedAttempt::record`]. The call keeps the failure of the last record that was
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
//! let mut failed = FailedAttempt::new(&facts, &busy).expect("it is a failure");
//! let mut driver = RetryDriver::default();
//! let Action::Wait(wait) = driver.failed(&mut failed, &strategy, Some(&bucket), &()) else {
//!     panic!("a second attempt follows")
//! };
//! let then = start + Duration::from_millis(20);
//! assert_eq!(wait.until, Some(then));
//! assert_eq!(bucket.milli_tokens(), Some(9000), "the failure was counted");
//! assert_eq!(failed.record.delay, Some(Duration::from_millis(20)));
//! assert_eq!(Resume::at(then, None), Resume::Send);
//! driver.sent();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod count;
mod deferred;
mod hedge;

pub use crate::policy::throttle::{count_success, count_unsuccessful};
pub(crate) use count::count;
pub use hedge::{HedgeDriver, Refused};

use crate::machine::{Action, FailedAttempt, RetryMachine, Wait};
use crate::policy::strategy::CallView;
use crate::{Failure, RetryStrategy, RetryThrottle, StopReason};

/// A retry machine, and what its throttle spent.
#[derive(Debug, Default)]
pub struct RetryDriver {
    /// The decisions of the call.
    pub machine: RetryMachine,
    /// The throttle spent for a retry after this failure, which is not sent yet.
    spent: Option<Failure>,
}

impl RetryDriver {
    /// What follows a failed attempt. Its record is complete then, unless that is [`Action::Ask`].
    pub fn failed(
        &mut self,
        failed: &mut FailedAttempt,
        strategy: &dyn RetryStrategy,
        throttle: Option<&dyn RetryThrottle>,
        call: &dyn CallView,
    ) -> Action {
        self.machine.failed(failed);
        let allowed = throttle.is_none_or(|throttle| {
            let asks = count(throttle, failed) || failed.was_refused();
            !asks || throttle.allows(Some(failed.failure()))
        });
        let action = self.machine.decide(failed, allowed, strategy, call);
        self.spend(action, failed, throttle)
    }

    /// The throttle pays for the attempt that follows, or refuses it.
    fn spend(
        &mut self,
        action: Action,
        failed: &mut FailedAttempt,
        throttle: Option<&dyn RetryThrottle>,
    ) -> Action {
        let Action::Wait(Wait {
            spends: Some(surface),
            ..
        }) = action
        else {
            return action;
        };
        let failure = failed.failure();
        if throttle.is_none_or(|throttle| throttle.spend(Some(failure))) {
            self.spent = Some(*failure);
            failed.record.paid = true;
            action
        } else {
            failed.stop(StopReason::Throttled);
            Action::Return(surface)
        }
    }

    /// The attempt that was waited for was sent: what was spent for it stays spent.
    pub const fn sent(&mut self) {
        self.spent = None;
    }

    /// The attempt that was waited for is not sent: a throttle spends only for those that are.
    pub fn unsent(&mut self, throttle: Option<&dyn RetryThrottle>) {
        if let (Some(failure), Some(throttle)) = (self.spent.take(), throttle) {
            throttle.refund(Some(&failure));
        }
    }
}
