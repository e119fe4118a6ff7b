//! What follows a failed attempt.

use std::time::{Duration, Instant};

use super::plan::Planner;
use super::{Frozen, HedgeAction, HedgeMachine, NoMore, Planned};
use crate::attempt::{Facts, FailedAttempt};
use crate::failure::reason::UNKNOWN;
#[cfg(doc)]
use crate::policy::HedgeDelay;
use crate::policy::backoff::Backoff;
use crate::policy::{AttemptEnd, HedgePolicy};
use crate::{Failure, OnDeadline, Stage, StopReason};

impl HedgeMachine {
    /// An attempt failed.
    ///
    /// The driver counts the failure in the throttle if [`FailedAttempt::counts`], and then asks
    /// [`HedgeMachine::decide`].
    pub fn failed(&mut self, failed: &mut FailedAttempt) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.began.get_or_insert(failed.facts.now);
        if !failed.facts.cut_off {
            self.last_failed = failed.facts.attempt;
            // With no copy left the failure counts. It does not where only the deadline ends the
            // retry, as in a retried call.
            let no_copy = |frozen: Frozen| frozen.no_more == NoMore::Copies;
            if !self.frozen.is_some_and(no_copy) {
                failed.use_transparent(&mut self.transparent);
            }
        }
    }

    /// What follows the failed attempt, whose record is complete then.
    pub fn decide(&mut self, failed: &mut FailedAttempt, policy: &HedgePolicy) -> HedgeAction {
        let facts = &failed.facts;
        if facts.cut_off {
            self.freeze(StopReason::NotReplayable);
            // The server said nothing: neither counted nor the call's failure.
            return self.after_failure(failed, policy);
        }
        if facts.report.circuit_open && failed.transparent_delay.is_none() {
            // Those in flight may still succeed.
            let others = self.in_flight > 0 || self.readying > 0;
            if failed.is_stop() {
                self.freeze(StopReason::Pushback);
            } else if !failed.retryable {
                // A further one would be refused as well.
                self.freeze(StopReason::Fatal);
            }
            if !failed.retryable || others {
                return self.after_failure(failed, policy);
            }
        }
        if failed.transparent_delay.is_none() && !failed.retryable {
            if failed.failure.stage == Stage::Dispatch && self.in_flight > 0 {
                // No server said it: it ends the hedging, and those in flight may still succeed.
                self.freeze(StopReason::Fatal);
                failed.stop(StopReason::Fatal);
                return HedgeAction::Go;
            }
            failed.stop(StopReason::Fatal);
            return HedgeAction::Return(StopReason::Fatal);
        }
        if failed.is_stop() {
            self.freeze(StopReason::Pushback);
        }
        let asked = failed.pushback_delay();
        if let Some(delay) = failed.transparent_delay {
            self.replace(delay, Planned::Transparent(failed.failure), failed);
        } else if failed.is_forced() {
            let own = Backoff::controlled().delay(self.forced, None);
            // Neither the maximum of attempts nor the throttle bounds it: the back-off has to.
            let delay = asked.map_or(own, |asked| asked.max(own));
            self.replace(delay, Planned::Retry(failed.failure), failed);
            self.forced = self.forced.saturating_add(1);
        } else if self.alone && !failed.failure.safe {
            self.freeze(StopReason::NotIdempotent);
        } else {
            let (delay, by) = match asked {
                Some(delay) => (delay, Planner::Pushback(failed.failure)),
                None => (Duration::ZERO, Planner::Failure(failed.failure)),
            };
            self.plan_after(failed, delay, by);
        }
        // The last gate before the deadline, as of a retry.
        if !failed.facts.replayable && (self.readying > 0 || self.wake().is_some()) {
            self.freeze(StopReason::NotReplayable);
        }
        self.after_failure(failed, policy)
    }

    fn after_failure(&mut self, failed: &mut FailedAttempt, policy: &HedgePolicy) -> HedgeAction {
        let (now, deadline) = (failed.facts.now, failed.facts.deadline);
        // Nothing else than a transparent retry follows the end of the hedging.
        let follows = |frozen: &Frozen| {
            failed.transparent_delay.is_some() && frozen.no_more == NoMore::Hedges
        };
        let frozen = self.frozen.filter(|frozen| !follows(frozen));
        let frozen = frozen.map(|frozen| frozen.stopped);
        if self.in_flight > 0 || self.readying > 0 {
            let in_time = |at: &Instant| deadline.is_none_or(|deadline| *at < deadline.at);
            let delay = self.wake().filter(in_time);
            let delay = delay.map(|at| at.saturating_duration_since(now));
            failed.decided(delay, frozen);
            return HedgeAction::Go;
        }
        let Some(at) = self.wake() else {
            let used_up = if self.throttled {
                StopReason::Throttled
            } else {
                StopReason::Attempts
            };
            let stopped = self.frozen.map_or(used_up, |frozen| frozen.stopped);
            failed.stop(stopped);
            return HedgeAction::Return(stopped);
        };
        let delay = at.saturating_duration_since(now);
        match deadline {
            Some(deadline) if at >= deadline.at => {
                self.freeze(StopReason::Deadline);
                if deadline.enforced && policy.deadline_choice() == OnDeadline::Cap {
                    failed.decided(Some(delay), Some(StopReason::Deadline));
                    HedgeAction::Expire
                } else {
                    failed.stop(StopReason::Deadline);
                    HedgeAction::Return(StopReason::Deadline)
                }
            }
            _ => {
                failed.decided(Some(delay), frozen);
                HedgeAction::Go
            }
        }
    }
}

impl FailedAttempt {
    /// An attempt in flight that can go no further, because another one goes on alone.
    #[must_use]
    pub fn of_cut_off(mut facts: Facts) -> Self {
        facts.cut_off = true;
        let stage = facts.report.stage.unwrap_or(Stage::InFlight);
        Self::known(&facts, Failure::new(UNKNOWN, stage), false)
    }

    /// How it ended for a hedge delay that learns ([`HedgeDelay::ended`]); `None` if it never left
    /// the client, because then it says nothing of how long the server takes.
    #[must_use]
    pub fn learned(&self) -> Option<AttemptEnd> {
        match self.failure.stage {
            _ if self.facts.cut_off => Some(AttemptEnd::Dropped),
            Stage::Dispatch => None,
            // A deadline of the attempt, or another layer, ended it: the server would have taken
            // longer. A hedge that ends so has not won, which is what is learned from hedges.
            _ if self.facts.report.own_answer && self.facts.attempt == 1 => {
                Some(AttemptEnd::Dropped)
            }
            Stage::InFlight | Stage::Response => Some(AttemptEnd::Failed),
        }
    }
}
