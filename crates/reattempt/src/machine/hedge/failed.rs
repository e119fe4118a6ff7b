//! What follows a failed attempt.

use std::time::{Duration, Instant};

use super::super::failed_attempt::{Facts, FailedAttempt};
use super::plan::Planner;
use super::{HedgeAction, HedgeMachine};
use crate::info::AttemptRecord;
use crate::policy::HedgePolicy;
use crate::policy::backoff::Backoff;
use crate::{AttemptKind, OnDeadline, StopReason, Verdict};

impl HedgeMachine {
    /// An attempt failed. `None` for a verdict that is no failure.
    ///
    /// The driver counts the failure in the throttle if [`FailedAttempt::counts`], and then asks
    /// [`HedgeMachine::decide`].
    pub fn attempt_failed(&mut self, facts: Facts, verdict: &Verdict) -> Option<FailedAttempt> {
        let mut failed = FailedAttempt::new(facts, verdict)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        if facts.cut_off {
            return Some(failed);
        }
        self.last_failed = facts.attempt;
        failed.use_transparent(&mut self.transparent);
        Some(failed)
    }

    /// What follows the failed attempt, and its record.
    pub fn decide(
        &mut self,
        failed: &FailedAttempt,
        policy: &HedgePolicy,
    ) -> (HedgeAction, AttemptRecord) {
        let facts = &failed.facts;
        if facts.cut_off || !facts.replayable {
            self.freeze(StopReason::NotReplayable);
        }
        if facts.cut_off {
            // The server said nothing: neither counted nor the call's failure.
            return self.after_failure(failed, policy);
        }
        if facts.report.circuit_open && failed.transparent.is_none() {
            // A further one would be refused as well. Those in flight may still succeed.
            self.freeze(StopReason::Fatal);
            return self.after_failure(failed, policy);
        }
        if failed.transparent.is_none() && !failed.retryable {
            let record = failed.record(None, Some(StopReason::Fatal));
            return (HedgeAction::Return(StopReason::Fatal), record);
        }
        if failed.is_stop() {
            self.freeze(StopReason::Pushback);
        }
        let asked = failed.pushback_delay();
        if let Some(delay) = failed.transparent {
            self.replace(delay, AttemptKind::Transparent, failed);
        } else if failed.is_forced() {
            let own = Backoff::controlled().delay(self.forced, None);
            // Neither the maximum of attempts nor the throttle bounds it: the back-off has to.
            let delay = asked.map_or(own, |asked| asked.max(own));
            self.replace(delay, AttemptKind::Retry, failed);
            self.forced = self.forced.saturating_add(1);
        } else if self.alone && !failed.failure.safe {
            self.freeze(StopReason::NotIdempotent);
        } else {
            let (delay, by) = match asked {
                Some(delay) => (delay, Planner::Pushback),
                None => (Duration::ZERO, Planner::Failure),
            };
            self.next = None;
            if self.has_another() {
                self.plan(facts.now, delay, by);
            }
        }
        self.after_failure(failed, policy)
    }

    fn after_failure(
        &mut self,
        failed: &FailedAttempt,
        policy: &HedgePolicy,
    ) -> (HedgeAction, AttemptRecord) {
        let (now, limit) = (failed.facts.now, failed.facts.limit);
        if self.in_flight > 0 || self.readying > 0 {
            let in_time = |at: &Instant| limit.is_none_or(|limit| *at < limit.at);
            let delay = self.wake().filter(in_time);
            let delay = delay.map(|at| at.saturating_duration_since(now));
            return (HedgeAction::Go, failed.record(delay, self.frozen));
        }
        let Some(at) = self.wake() else {
            let used_up = if self.throttled {
                StopReason::Throttled
            } else {
                StopReason::Attempts
            };
            let stopped = self.frozen.unwrap_or(used_up);
            let record = failed.record(None, Some(stopped));
            return (HedgeAction::Return(stopped), record);
        };
        let delay = at.saturating_duration_since(now);
        match limit {
            Some(limit) if at >= limit.at => {
                self.freeze(StopReason::Deadline);
                let stopped = Some(StopReason::Deadline);
                if limit.enforced && policy.deadline_choice() == OnDeadline::Cap {
                    (HedgeAction::Expire, failed.record(Some(delay), stopped))
                } else {
                    let action = HedgeAction::Return(StopReason::Deadline);
                    (action, failed.record(None, stopped))
                }
            }
            _ => (HedgeAction::Go, failed.record(Some(delay), None)),
        }
    }
}
