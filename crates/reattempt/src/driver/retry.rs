//! The effects of a retried call.

use std::time::{Duration, Instant};

use super::{CallEffects, allows, count, spend, waited_until};
use crate::info::AttemptRecord;
use crate::machine::{Action, Asked, Facts, FailedAttempt, Resume, RetryMachine};
use crate::policy::strategy::StrategyError;
use crate::{Failure, RetryStrategy, StopReason, Surface, Verdict};

/// A retry machine, and what its throttle spent.
#[derive(Debug, Default)]
pub struct RetryDriver {
    /// The decisions of the call.
    pub machine: RetryMachine,
    /// The throttle spent for a retry after this failure, which is not sent yet.
    spent: Option<Failure>,
}

impl RetryDriver {
    /// An attempt failed. `facts` are what its call knows of it.
    pub fn failed(
        &mut self,
        facts: Facts,
        verdict: &Verdict,
        strategy: &dyn RetryStrategy,
        effects: &impl CallEffects,
    ) -> Action {
        let Some(mut failed) = self.machine.attempt_failed(facts, verdict) else {
            return Action::Return(Surface::New);
        };
        effects.close_slot();
        count(effects, &mut failed);
        let allowed = !failed.counts() || allows(effects, Some(failed.failure()));
        let backend = effects.backend();
        let decided =
            self.machine
                .decide(&failed, allowed, strategy, effects.view(), backend.as_ref());
        self.apply(decided, &failed, effects)
    }

    /// The strategy finished a deferred decision.
    pub fn decided(
        &mut self,
        now: Instant,
        asked: &Asked,
        decision: Result<Option<Duration>, StrategyError>,
        replayable: bool,
        strategy: &dyn RetryStrategy,
        effects: &impl CallEffects,
    ) -> Action {
        let decided = self
            .machine
            .decided(asked, now, decision, replayable, strategy);
        self.apply(decided, &asked.failed, effects)
    }

    /// Spends for the attempt that follows, and records the one that failed.
    fn apply(
        &mut self,
        (mut action, record): (Action, Option<AttemptRecord>),
        failed: &FailedAttempt,
        effects: &impl CallEffects,
    ) -> Action {
        let Some(mut record) = record else {
            return action;
        };
        if let Action::Wait(wait) = &action {
            if let Some(surface) = wait.spends {
                record.paid = spend(effects, Some(failed.failure()));
                if record.paid {
                    self.spent = Some(*failed.failure());
                } else {
                    record.delay = None;
                    record.stopped = Some(StopReason::Throttled);
                    action = Action::Return(surface);
                }
            }
        }
        let stopped = record.stopped;
        effects.record(record);
        if let Some(stopped) = stopped {
            effects.ended(stopped);
        }
        action
    }

    /// The wait is over and the service is ready: may the attempt be sent?
    pub fn resume(&mut self, now: Instant, effects: &impl CallEffects) -> Resume {
        let resume = Resume::at(now, effects.limit());
        if resume != Resume::Send {
            self.late(StopReason::Deadline, effects);
        }
        resume
    }

    /// The attempt that was waited for was sent: what was spent for it stays spent.
    pub const fn sent(&mut self) {
        self.spent = None;
    }

    /// A newer configuration ended the wait early.
    pub fn nudged(&self, now: Instant, effects: &impl CallEffects) {
        waited_until(effects, now);
    }

    /// The request refused to be copied after all: the kept failure is returned.
    pub fn refused(&mut self, effects: &impl CallEffects) {
        self.late(StopReason::NotReplayable, effects);
    }

    /// The service failed before it was ready for another attempt: the kept failure is returned.
    pub fn broken(&mut self, effects: &impl CallEffects) {
        self.late(StopReason::Fatal, effects);
    }

    /// The call was dropped. A failure whose decision was still open is recorded now.
    pub fn dropped(
        &mut self,
        asked: Option<&Asked>,
        stopped: StopReason,
        effects: &impl CallEffects,
    ) {
        if let Some(asked) = asked {
            effects.record(asked.failed.record(None, Some(stopped)));
        }
        self.give_back(effects);
        effects.ended(stopped);
    }

    /// A throttle spends only for attempts that are sent.
    fn give_back(&mut self, effects: &impl CallEffects) {
        if let (Some(failure), Some(throttle)) = (self.spent.take(), effects.throttle()) {
            throttle.refund(Some(&failure));
        }
    }

    fn late(&mut self, stopped: StopReason, effects: &impl CallEffects) {
        self.give_back(effects);
        let attempt = effects.attempt();
        effects.amend(attempt, |record| record.stopped = Some(stopped));
        effects.ended(stopped);
    }
}
