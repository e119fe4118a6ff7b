//! The throttle of a retried call.

use std::time::{Duration, Instant};

use super::count;
use crate::machine::{Action, Asked, FailedAttempt, RetryMachine, Wait};
use crate::policy::strategy::{CallView, StrategyError};
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
            !count(throttle, failed) || throttle.allows(Some(failed.failure()))
        });
        let action = self.machine.decide(failed, allowed, strategy, call);
        self.spend(action, failed, throttle)
    }

    /// What follows once the strategy finished a deferred decision. `replayable` is as of now.
    pub fn decided(
        &mut self,
        asked: &mut Asked,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        replayable: bool,
        strategy: &dyn RetryStrategy,
        throttle: Option<&dyn RetryThrottle>,
    ) -> Action {
        let machine = &mut self.machine;
        let action = machine.decided(asked, now, decision, replayable, strategy);
        self.spend(action, &mut asked.failed, throttle)
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
            failed.pay();
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
