//! The effects of a retried call.

use std::time::{Duration, Instant};

use super::Effects;
use crate::info::AttemptRecord;
use crate::machine::{Action, Facts, FailedAttempt, Resume, RetryMachine};
use crate::policy::strategy::StrategyError;
use crate::{RetryStrategy, StopReason, Surface, Verdict};

/// A retry machine, and what its throttle spent.
#[derive(Debug, Default)]
pub(crate) struct RetryDriver {
    pub(crate) machine: RetryMachine,
    /// The throttle spent for a retry that is not sent yet.
    spent: bool,
    /// The attempt that a deferred decision is about, and whether the throttle allows another.
    asked: Option<(FailedAttempt, bool)>,
    /// The throttle's fill after the latest failure.
    milli_tokens: Option<u64>,
}

impl RetryDriver {
    /// An attempt failed. `facts` come from [`Effects::facts`].
    pub(crate) fn failed(
        &mut self,
        facts: Facts,
        verdict: &Verdict,
        strategy: &dyn RetryStrategy,
        effects: &Effects<'_>,
    ) -> Action {
        let Some(failed) = self.machine.attempt_failed(facts, verdict) else {
            return Action::Return(Surface::New);
        };
        effects.close_slot();
        self.milli_tokens = effects.count(&failed);
        let allowed = !failed.counts() || effects.allows(Some(failed.failure()));
        let backend = effects.context.backend();
        let decided =
            self.machine
                .decide(failed, allowed, strategy, effects.context, backend.as_ref());
        if matches!(decided.0, Action::Ask(_)) {
            self.asked = Some((failed, allowed));
        }
        self.apply(decided, &failed, effects)
    }

    /// The strategy finished a deferred decision.
    pub(crate) fn decided(
        &mut self,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        replayable: bool,
        strategy: &dyn RetryStrategy,
        effects: &Effects<'_>,
    ) -> Action {
        let Some((failed, allowed)) = self.asked.take() else {
            return Action::Return(Surface::New);
        };
        let decided = self
            .machine
            .decided(failed, now, decision, allowed, replayable, strategy);
        self.apply(decided, &failed, effects)
    }

    /// Spends for the attempt that follows, and records the one that failed.
    fn apply(
        &mut self,
        (mut action, record): (Action, Option<AttemptRecord>),
        failed: &FailedAttempt,
        effects: &Effects<'_>,
    ) -> Action {
        let Some(mut record) = record else {
            return action;
        };
        if let Action::Wait(wait) = &action {
            if let Some(surface) = wait.spends {
                self.spent = effects.spend(Some(failed.failure()));
                if !self.spent {
                    record.delay = None;
                    record.stopped = Some(StopReason::Throttled);
                    action = Action::Return(surface);
                }
            }
        }
        let stopped = record.stopped;
        effects.record_failure(record, self.milli_tokens);
        if let Some(stopped) = stopped {
            effects.ended(stopped);
        }
        action
    }

    /// The wait is over and the service is ready: may the attempt be sent?
    pub(crate) fn resume(&mut self, now: Instant, effects: &Effects<'_>) -> Resume {
        let resume = Resume::at(now, effects.context.limit());
        if resume != Resume::Send {
            self.late(StopReason::Deadline, effects);
        }
        resume
    }

    /// The attempt that was waited for was sent: what was spent for it stays spent.
    pub(crate) const fn sent(&mut self) {
        self.spent = false;
    }

    /// A newer configuration ended the wait early.
    pub(crate) fn nudged(&self, now: Instant, effects: &Effects<'_>) {
        effects.waited_until(now);
    }

    /// The request refused to be copied after all: the kept failure is returned.
    pub(crate) fn refused(&mut self, effects: &Effects<'_>) {
        self.late(StopReason::NotReplayable, effects);
    }

    /// The service failed before it was ready for another attempt: the kept failure is returned.
    pub(crate) fn broken(&mut self, effects: &Effects<'_>) {
        self.late(StopReason::Fatal, effects);
    }

    /// The call was dropped. A failure whose decision was still open is recorded now.
    pub(crate) fn dropped(&mut self, stopped: StopReason, effects: &Effects<'_>) {
        if let Some((failed, _)) = self.asked.take() {
            effects.record_failure(failed.record(None, Some(stopped)), self.milli_tokens);
        }
        self.give_back(effects);
        effects.ended(stopped);
    }

    /// A throttle spends only for attempts that are sent.
    fn give_back(&mut self, effects: &Effects<'_>) {
        if std::mem::take(&mut self.spent) {
            effects.refund();
        }
    }

    fn late(&mut self, stopped: StopReason, effects: &Effects<'_>) {
        self.give_back(effects);
        let attempt = effects.context.attempt();
        effects.amend(attempt, |record| record.stopped = Some(stopped));
        effects.ended(stopped);
    }
}
