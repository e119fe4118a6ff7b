//! Drives the machines, for both recovery layers and for simulators: asks and charges the throttle
//! between their steps. So the order of the gates, and what a throttle counts, pays and gets back,
//! has one home.
//!
//! [`RetryDriver`] and [`HedgeDriver`] change no call: they say what follows, and write what
//! happened into [`FailedAttempt::record`]. The layers apply it to their call: they store the
//! record, end the call and notify the observer. The call keeps the failure of the last record that
//! was [paid](crate::AttemptRecord::paid) for: [`count_success`] returns the price.
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
mod dropped;
mod ended;
mod hedge;
mod hedged;
#[cfg(feature = "tokio")]
mod no_end;
mod passed;

use std::time::Instant;

pub use crate::policy::throttle::{count_success, count_unsuccessful};
use count::count;
pub use hedge::{HedgeDriver, Refused};

use crate::attempt::AttemptRecord;
use crate::call::state::CallState;
use crate::machine::{Action, Facts, FailedAttempt, RetryMachine, Wait};
use crate::policy::strategy::CallView;
use crate::{CallContext, Failure, Observer, RetryStrategy, RetryThrottle, StopReason};

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

/// Applies to one attempt's call what a driver decided: its context, and what the layer was built
/// with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects<'a> {
    /// The context of the attempt.
    pub(crate) context: &'a CallContext,
    /// Transparent retries are switched on.
    pub(crate) transparent: bool,
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl<'a> Effects<'a> {
    /// The attempt takes no more reports: what the context knows of it.
    pub(crate) fn facts(&self, now: Instant) -> Facts {
        let report = self.context.end_attempt();
        Facts {
            report,
            other_backend: report.circuit_open && self.context.was_let_through_elsewhere(),
            transparent: self.transparent,
            idempotent: self.context.idempotency().is_idempotent(),
            deadline: self.context.deadline(),
            ..Facts::new(now, self.context.attempt(), self.context.kind())
        }
    }

    /// An attempt succeeded, or its response began. Reads no clock, and on the first attempt of an
    /// unobserved call writes two atomics.
    #[inline]
    pub(crate) fn succeeded(&self, committed: bool) {
        // The first attempt of several may succeed too. Then the records of the others need this
        // one beside them.
        if self.context.shared().is_some_and(CallState::sent_several) {
            self.context.settle_recovery(committed);
            self.record_success(committed);
        } else {
            self.context.settle_success(committed);
            if let Some(observer) = self.observer.filter(|observer| observer.sees_success()) {
                observer.first_succeeded(self.context, committed);
            }
        }
    }

    #[cold]
    fn record_success(&self, committed: bool) {
        if let Some(state) = self.context.shared() {
            let mut record = self.context.success_record(committed);
            self.record(&mut record);
            if let Some(stopped) = record.stopped {
                self.observe_end(state, stopped);
            }
        }
    }

    /// The throttle that applies to the call.
    pub(crate) fn throttle(&self) -> Option<&'a dyn RetryThrottle> {
        self.context.throttle().map(|throttle| &**throttle)
    }

    /// An attempt failed: what follows.
    pub(crate) fn failed(
        &self,
        driver: &mut RetryDriver,
        failed: &mut FailedAttempt,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        let action = driver.failed(failed, strategy, self.throttle(), self.context);
        if !matches!(action, Action::Ask(_)) {
            self.settled(&mut failed.record);
        } else if let Some(state) = self.context.shared() {
            // The deadline may pass before the decision, and before the record.
            state.remember_lost(&failed.record);
        }
        action
    }

    /// An attempt ended, and the call with it if the record says why no other follows.
    pub(crate) fn settled(&self, record: &mut AttemptRecord) {
        self.record(record);
        if let Some(stopped) = record.stopped {
            self.ended(stopped);
        }
    }

    /// An attempt ended. Its record gets what only the call knows.
    pub(crate) fn record(&self, record: &mut AttemptRecord) {
        if let Some(state) = self.context.shared() {
            record.backend = state.backend_of(self.context.attempt());
            #[cfg(feature = "tokio")]
            if state.has_learners() {
                self.no_end_of(record);
            }
            state.record(record);
        }
        // Last, so that a panic in it loses no record.
        if let Some(observer) = self.observer {
            observer.attempt_settled(self.context, record);
        }
    }

    fn observe_end(&self, state: &CallState, stopped: StopReason) {
        if let Some(observer) = self.observer {
            if observer.sees_end(stopped) {
                observer.call_ended(self.context, &state.info());
            }
        }
    }
}
