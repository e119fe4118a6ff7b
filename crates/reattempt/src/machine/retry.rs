//! The retry machine: one attempt after another (A6, Retry Policy; RFC 0049, Retry Orchestration).

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::config_moved::MOST_NUDGED;
use super::streak::Streak;
use super::transparent::TransparentRetries;
use crate::attempt::FailedAttempt;
use crate::call_deadline::later;
use crate::policy::strategy::CallView;
use crate::{
    AttemptKind, Decision, Failure, OnDeadline, RetryStrategy, RetryView, ServerPushback,
    StopReason, Surface,
};

/// The longest pushback that a call without a deadline waits for. A longer one means stop.
const LONGEST_PUSHBACK: Duration = Duration::from_secs(24 * 60 * 60);

/// What the driver keeps while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// An error until the next attempt is sent; a response is dropped now.
    Error,
    /// The newest outcome, response or error: a later gate may return it.
    New,
    /// The outcome that is held already.
    Held,
}

/// Wait, then send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Until when; `None` sends at once and arms no timer.
    pub until: Option<Instant>,
    /// What the next attempt is.
    pub kind: AttemptKind,
    /// What to keep meanwhile.
    pub keep: Keep,
    /// A newer configuration may end the wait early: race the waiter that the attempt left.
    pub nudge: bool,
    /// The throttle spends for this attempt. If it refuses, the call ends with this failure.
    pub spends: Option<Surface>,
}

/// What to do after a failed attempt.
#[derive(Debug)]
pub enum Action {
    /// End the call with this failure.
    Return(Surface),
    /// Wait, then send again.
    Wait(Wait),
    /// Let the strategy finish its decision, keeping the new outcome, then call
    /// [`RetryMachine::decided`].
    Ask(Box<Asked>),
    /// Send nothing more and let the deadline end the call (RFC 0049, Capping). This failure is the
    /// call's if no layer above does.
    Expire(Surface),
}

/// The decisions of one call that is retried.
///
/// Each failed attempt goes through [`RetryMachine::failed`] and [`RetryMachine::decide`]. The
/// machine applies nothing: it returns an [`Action`], and writes what the attempt's record says.
#[derive(Debug, Default)]
pub struct RetryMachine {
    retries: u32,
    since_pushback: u32,
    transparent: TransparentRetries,
    streak: Option<Streak>,
    failing_since: Option<Instant>,
    previous_delay: Option<Duration>,
    pub(super) held: Option<Failure>,
    last: bool,
}

impl RetryMachine {
    /// After [`Action::Wait`]: whether the attempt that is about to be sent is the last that the
    /// strategy allows. Then the driver moves the request instead of copying it, unless the
    /// classifier knows always-retry reasons, which pass the maximum. False before the first
    /// failure.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.last
    }

    fn exhausted(&self, strategy: &dyn RetryStrategy) -> bool {
        strategy
            .max_attempts()
            .is_some_and(|max| self.retries.saturating_add(1) >= max)
    }

    /// An attempt failed.
    ///
    /// The driver counts the failure in the throttle if [`FailedAttempt::counts`], and then asks
    /// [`RetryMachine::decide`].
    pub fn failed(&mut self, failed: &mut FailedAttempt) {
        if !failed.facts.cut_off {
            self.failing_since.get_or_insert(failed.facts.now);
            Streak::follow(&mut self.streak, failed.facts.now, &failed.failure);
            failed.use_transparent(&mut self.transparent);
        }
    }

    /// What follows the failed attempt, whose record is complete then, unless the strategy decides
    /// later. `allowed` is the throttle's answer.
    pub fn decide(
        &mut self,
        failed: &mut FailedAttempt,
        allowed: bool,
        strategy: &dyn RetryStrategy,
        call: &dyn CallView,
    ) -> Action {
        let facts = &failed.facts;
        if facts.cut_off {
            return self.stop(StopReason::NotReplayable, failed, strategy);
        }
        if let Some(delay) = failed.transparent_delay {
            return self.wait(delay, AttemptKind::Transparent, failed, strategy);
        }
        if !failed.retryable {
            return self.stop(StopReason::Fatal, failed, strategy);
        }
        if failed.is_stop() {
            return self.stop(StopReason::Pushback, failed, strategy);
        }
        if failed.is_forced() {
            let delay = failed.forced_delay(self.retries);
            return self.wait(delay, AttemptKind::Retry, failed, strategy);
        }
        if !failed.failure.safe && !facts.idempotent {
            return self.stop(StopReason::NotIdempotent, failed, strategy);
        }
        if self.exhausted(strategy) {
            return self.stop(StopReason::Attempts, failed, strategy);
        }
        let streak = self
            .streak
            .map_or((1, facts.now), |streak| (streak.count, streak.since));
        let backend = call.backend();
        let decision = strategy.decide(&RetryView {
            failure: &failed.failure,
            now: facts.now,
            retries: self.retries,
            retries_since_pushback: self.since_pushback,
            streak: streak.0,
            streak_since: streak.1,
            failing_since: self.failing_since.unwrap_or(facts.now),
            previous_delay: self.previous_delay,
            backend: backend.as_ref(),
            idempotent: facts.idempotent,
            deadline: facts.deadline,
            call,
        });
        match decision {
            Decision::Stop => self.stop(StopReason::Strategy, failed, strategy),
            Decision::Exhausted => self.stop(StopReason::Attempts, failed, strategy),
            Decision::After(delay) => self.gates(delay, failed, allowed, strategy),
            Decision::Defer(deferred) => {
                let asked = Asked {
                    deferred,
                    failed: failed.clone(),
                    allowed,
                };
                Action::Ask(Box::new(asked))
            }
        }
    }

    /// The gates after the strategy: the throttle allows it, the request can be replayed, the delay
    /// ends before the deadline. A pushback replaces the strategy's delay, unless the strategy
    /// decides otherwise.
    pub(super) fn gates(
        &mut self,
        delay: Duration,
        failed: &mut FailedAttempt,
        allowed: bool,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        if !allowed {
            return self.stop(StopReason::Throttled, failed, strategy);
        }
        let delay = match failed.pushback_delay() {
            Some(asked) => strategy.delay_asked(&failed.failure, asked, delay),
            None if failed.goes_at_once(self.retries) => Duration::ZERO,
            None => delay,
        };
        self.wait(delay, AttemptKind::Retry, failed, strategy)
    }

    fn wait(
        &mut self,
        delay: Duration,
        kind: AttemptKind,
        failed: &mut FailedAttempt,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        if !failed.facts.replayable {
            return self.stop(StopReason::NotReplayable, failed, strategy);
        }
        let deadline = failed.facts.deadline;
        let until = (!delay.is_zero()).then(|| later(failed.facts.now, delay));
        let at = until.unwrap_or(failed.facts.now);
        if let Some(deadline) = deadline.filter(|deadline| at >= deadline.at) {
            let usual = failed.facts.on_deadline;
            let gives_up = strategy.on_deadline().unwrap_or(usual) == OnDeadline::GiveUp;
            if gives_up || !deadline.enforced {
                return self.stop(StopReason::Deadline, failed, strategy);
            }
            failed.decided(Some(delay), Some(StopReason::Deadline));
            return Action::Expire(self.surface(&failed.failure, strategy));
        }
        let spends = (kind == AttemptKind::Retry && !failed.is_forced())
            .then(|| self.surface(&failed.failure, strategy));
        let keep = if strategy.holds() {
            self.hold(&failed.failure, strategy)
        } else if deadline.is_some_and(|deadline| !deadline.enforced) {
            Keep::New
        } else {
            Keep::Error
        };
        let wait = Wait {
            until,
            kind,
            keep,
            nudge: failed.may_nudge(delay) && self.retries < MOST_NUDGED,
            spends,
        };
        let most = strategy.max_attempts();
        if kind == AttemptKind::Retry {
            self.retries = self.retries.saturating_add(1);
            // Where the back-off bounds the number of attempts no pushback starts it again.
            let restarts = failed.pushback_delay().is_some() && most.is_some();
            self.since_pushback = if restarts {
                0
            } else {
                self.since_pushback.saturating_add(1)
            };
            // The back-off starts again, also one that grows with its last delay (R32).
            self.previous_delay = (!restarts).then_some(delay);
        }
        self.last = most.is_some_and(|most| self.retries.saturating_add(1) >= most);
        failed.decided(Some(delay), None);
        Action::Wait(wait)
    }

    pub(super) fn stop(
        &self,
        stopped: StopReason,
        failed: &mut FailedAttempt,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        failed.stop(stopped);
        Action::Return(self.surface(&failed.failure, strategy))
    }

    /// Which failure is returned when the call ends with this one.
    fn surface(&self, new: &Failure, strategy: &dyn RetryStrategy) -> Surface {
        match &self.held {
            Some(held) => strategy.surface(held, new),
            None => Surface::New,
        }
    }
}

impl FailedAttempt {
    /// The server, or a layer on its behalf, wants no further attempt of this call.
    pub(super) fn is_stop(&self) -> bool {
        match self.facts.report.pushback {
            _ if self.facts.report.forbidden => true,
            Some(ServerPushback::Stop | ServerPushback::TooLong { .. }) => true,
            // Without a deadline a server could make the call wait for years. With one the delay is
            // held against the deadline, as any other.
            Some(ServerPushback::After(delay)) => {
                delay > LONGEST_PUSHBACK && self.facts.deadline.is_none()
            }
            None => false,
        }
    }

    /// The delay that the server asked for, unless that is too long.
    pub(super) const fn pushback_delay(&self) -> Option<Duration> {
        match self.facts.report.pushback {
            Some(ServerPushback::After(delay)) => Some(delay),
            Some(ServerPushback::TooLong { .. } | ServerPushback::Stop) | None => None,
        }
    }
}
