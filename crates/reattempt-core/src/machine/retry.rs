//! The retry machine: one attempt after another (A6, Retry Policy; RFC 0049, Retry Orchestration).

use std::time::{Duration, Instant};

use super::settle::{Env, MOST_NUDGED, Settlement};
use super::transparent::TransparentRetries;
use crate::backoff::Backoff;
use crate::strategy::{Deferred, StrategyError};
use crate::{
    AttemptKind, Decision, Failure, Findings, OnDeadline, RetryReason, RetryStrategy, RetryView,
    ServerPushback, Stopped, Surface, Verdict,
};

/// What the driver keeps while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// An error until the next attempt is sent; an answer is dropped now.
    Error,
    /// The outcome that just arrived, whatever it is: a gate still ahead may return it.
    New,
    /// The outcome that was held already.
    Held,
}

/// Wait, then send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Until when; `None` sends at once and touches no timer.
    pub until: Option<Instant>,
    /// What the next attempt is.
    pub kind: AttemptKind,
    /// What to keep meanwhile.
    pub keep: Keep,
    /// A newer configuration may end the wait early: race the waiter that was left.
    pub nudge: bool,
}

/// What to do after a failed attempt.
pub enum Action {
    /// End the call with this failure.
    Return(Surface),
    /// Wait, then send again.
    Wait(Wait),
    /// Let the strategy finish its decision, keeping the new outcome, then call
    /// [`RetryMachine::decided`].
    Ask(Deferred),
    /// Send nothing more and let the deadline end the call (RFC 0049, Capping).
    Expire,
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Return(surface) => f.debug_tuple("Return").field(surface).finish(),
            Self::Wait(wait) => f.debug_tuple("Wait").field(wait).finish(),
            Self::Ask(_) => f.write_str("Ask"),
            Self::Expire => f.write_str("Expire"),
        }
    }
}

/// What to do when the wait is over and the service is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Send the attempt.
    Send,
    /// The time limit passed meanwhile, and nobody enforces it: return the failure that was kept.
    Return,
    /// The time limit passed meanwhile: let the deadline end the call.
    Expire,
}

/// The decisions of one call that is retried.
///
/// Feed it each failed attempt with [`RetryMachine::failed`]; tell [`Env::succeeded`] of the one
/// that worked.
#[derive(Debug, Default)]
pub struct RetryMachine {
    retries: u32,
    since_pushback: u32,
    transparent: TransparentRetries,
    streak: Option<Streak>,
    failing_since: Option<Instant>,
    previous_delay: Option<Duration>,
    held: Option<Failure>,
    /// The throttle paid for a retry that is not sent yet.
    spent: bool,
    /// What a deferred decision is about.
    asked: Option<Settlement>,
}

/// Failures in a row with one code.
#[derive(Clone, Copy, Debug)]
struct Streak {
    code: Option<i32>,
    reason: RetryReason,
    since: Instant,
    count: u32,
}

impl RetryMachine {
    /// A machine for one call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Could the attempt that is about to be sent, `attempt` (from 1), be followed by another? If
    /// not, the driver moves the request instead of copying it. `may_force`: the classifier knows
    /// verdicts that pass the maximum by.
    #[must_use]
    pub fn may_follow(&self, strategy: &dyn RetryStrategy, may_force: bool) -> bool {
        may_force || !self.exhausted(strategy)
    }

    fn exhausted(&self, strategy: &dyn RetryStrategy) -> bool {
        strategy
            .max_attempts()
            .is_some_and(|max| self.retries.saturating_add(1) >= max)
    }

    /// An attempt failed (a verdict that is no failure returns it unseen).
    pub fn failed(
        &mut self,
        now: Instant,
        verdict: &Verdict,
        found: Findings,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        let Some(mut settled) = Settlement::of(now, verdict, found) else {
            return Action::Return(Surface::New);
        };
        if let Some(block) = env.context.shared() {
            block.settled(env.context.seat());
        }
        if settled.cut_off {
            return self.stop(Stopped::NotReplayable, &settled, strategy, env);
        }
        self.failing_since.get_or_insert(now);
        self.follow_streak(now, &settled.failure);

        if env.transparent && env.replayable && !settled.is_stop(env) {
            let deadline = env.context.limit().is_some();
            if let Some(delay) = self.transparent.next(settled.failure.transparent, deadline) {
                settled.mended = true;
                return self.wait(
                    now,
                    delay,
                    AttemptKind::Transparent,
                    &settled,
                    strategy,
                    env,
                );
            }
        }
        settled.count(env);
        if !settled.retryable {
            return self.stop(Stopped::Fatal, &settled, strategy, env);
        }
        if settled.is_stop(env) {
            return self.stop(Stopped::Pushback, &settled, strategy, env);
        }
        if settled.is_forced() {
            let own = Backoff::controlled().delay(self.retries, None);
            let delay = match settled.pushback {
                // No maximum of attempts and no throttle bounds this retry: the back-off has to.
                Some(ServerPushback::After(asked)) => asked.max(own),
                _ if settled.goes_at_once(self.retries) => Duration::ZERO,
                _ => own,
            };
            return self.schedule(now, delay, &settled, strategy, env);
        }
        if !settled.failure.safe && !env.context.idempotency().is_idempotent() {
            return self.stop(Stopped::NotIdempotent, &settled, strategy, env);
        }
        if self.exhausted(strategy) {
            return self.stop(Stopped::Attempts, &settled, strategy, env);
        }
        let backend = env.context.backend();
        let streak = self
            .streak
            .map_or((1, now), |streak| (streak.count, streak.since));
        let decision = strategy.decide(&RetryView {
            failure: &settled.failure,
            now,
            retries: self.retries,
            retries_since_pushback: self.since_pushback,
            streak: streak.0,
            streak_since: streak.1,
            failing_since: self.failing_since.unwrap_or(now),
            previous_delay: self.previous_delay,
            backend: backend.as_ref(),
            context: env.context,
        });
        match decision {
            Decision::Stop => self.stop(Stopped::Strategy, &settled, strategy, env),
            Decision::Exhausted => self.stop(Stopped::Attempts, &settled, strategy, env),
            Decision::After(delay) => self.gates(now, delay, &settled, strategy, env),
            Decision::Defer(deferred) => {
                self.asked = Some(settled);
                Action::Ask(deferred)
            }
        }
    }

    /// A deferred decision is there. An error fails the call at once.
    pub fn decided(
        &mut self,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        let Some(settled) = self.asked.take() else {
            return Action::Return(Surface::New);
        };
        match decision {
            Ok(Some(delay)) => self.gates(now, delay, &settled, strategy, env),
            Ok(None) | Err(_) => self.stop(Stopped::Strategy, &settled, strategy, env),
        }
    }

    /// The wait is over and the service is ready: may the attempt go out?
    pub fn resume(&mut self, now: Instant, env: &Env<'_>) -> Resume {
        match env.context.limit() {
            Some(limit) if limit.passed(now) => {
                self.late(Stopped::Deadline, env);
                if limit.enforced {
                    Resume::Expire
                } else {
                    Resume::Return
                }
            }
            _ => Resume::Send,
        }
    }

    /// The attempt that was waited for went out: what its throttle paid for it stays paid.
    pub const fn sent(&mut self) {
        self.spent = false;
    }

    /// A newer configuration ended the wait early: the record says what was really waited.
    pub fn nudged(&self, now: Instant, env: &Env<'_>) {
        env.waited_until(now);
    }

    /// The request refused to be copied after all: the kept failure is returned.
    pub fn refused(&mut self, env: &Env<'_>) {
        self.late(Stopped::NotReplayable, env);
    }

    /// The service broke before it was ready for another attempt: the kept failure is returned.
    pub fn broken(&mut self, env: &Env<'_>) {
        self.late(Stopped::Fatal, env);
    }

    /// The call was dropped. A failure whose decision was still being made is recorded now, or
    /// nobody would ever hear of it.
    pub fn dropped(&mut self, stopped: Stopped, env: &Env<'_>) {
        if let Some(settled) = self.asked.take() {
            settled.record(env, None, Some(stopped));
        }
        self.give_back(env);
        env.ended(stopped);
    }

    /// A throttle pays only for attempts that are sent.
    fn give_back(&mut self, env: &Env<'_>) {
        if std::mem::take(&mut self.spent) {
            env.refund();
        }
    }

    fn late(&mut self, stopped: Stopped, env: &Env<'_>) {
        self.give_back(env);
        if let Some(block) = env.context.shared() {
            block.amend(env.context.attempt(), |record| {
                record.stopped = Some(stopped)
            });
        }
        env.ended(stopped);
    }

    /// The gates behind the strategy: the throttle allows it, the request can be replayed, the
    /// delay fits before the deadline, the throttle pays for it. The server's delay replaces the
    /// strategy's, unless the strategy decides otherwise.
    fn gates(
        &mut self,
        now: Instant,
        delay: Duration,
        settled: &Settlement,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        if !env.allows(Some(&settled.failure)) {
            return self.stop(Stopped::Throttled, settled, strategy, env);
        }
        let delay = match settled.pushback {
            Some(ServerPushback::After(asked)) => {
                let asked = strategy.delay_asked(&settled.failure, asked, delay);
                // Without a maximum of attempts only the back-off bounds how many there are.
                match strategy.max_attempts() {
                    Some(_) => asked,
                    None => asked.max(delay),
                }
            }
            _ if settled.goes_at_once(self.retries) => Duration::ZERO,
            _ => delay,
        };
        self.schedule(now, delay, settled, strategy, env)
    }

    fn schedule(
        &mut self,
        now: Instant,
        delay: Duration,
        settled: &Settlement,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        if !env.replayable {
            return self.stop(Stopped::NotReplayable, settled, strategy, env);
        }
        let action = self.wait(now, delay, AttemptKind::Retry, settled, strategy, env);
        if matches!(action, Action::Wait(_)) {
            self.retries = self.retries.saturating_add(1);
            // Where the back-off bounds the number of attempts no server starts it anew.
            let anew = settled.pushback.is_some() && strategy.max_attempts().is_some();
            self.since_pushback = if anew {
                0
            } else {
                self.since_pushback.saturating_add(1)
            };
            self.previous_delay = Some(delay);
        }
        action
    }

    fn wait(
        &mut self,
        now: Instant,
        delay: Duration,
        kind: AttemptKind,
        settled: &Settlement,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        let limit = env.context.limit();
        let until = later(now, delay);
        if let Some(limit) = limit.filter(|limit| until >= limit.at) {
            if !limit.enforced || strategy.on_deadline() == OnDeadline::GiveUp {
                return self.stop(Stopped::Deadline, settled, strategy, env);
            }
            settled.record(env, Some(delay), Some(Stopped::Deadline));
            env.ended(Stopped::Deadline);
            return Action::Expire;
        }
        if kind == AttemptKind::Retry && !settled.is_forced() {
            if !env.spend(Some(&settled.failure)) {
                return self.stop(Stopped::Throttled, settled, strategy, env);
            }
            self.spent = true;
        }
        settled.record(env, Some(delay), None);
        let keep = if strategy.holds() {
            self.hold(&settled.failure, strategy)
        } else if limit.is_some_and(|limit| !limit.enforced) {
            Keep::New
        } else {
            Keep::Error
        };
        Action::Wait(Wait {
            until: (!delay.is_zero()).then_some(until),
            kind,
            keep,
            nudge: settled.may_nudge(delay) && self.retries < MOST_NUDGED,
        })
    }

    fn hold(&mut self, new: &Failure, strategy: &dyn RetryStrategy) -> Keep {
        match self.held {
            Some(held) if strategy.surface(&held, new) == Surface::Held => Keep::Held,
            _ => {
                self.held = Some(*new);
                Keep::New
            }
        }
    }

    fn stop(
        &self,
        stopped: Stopped,
        settled: &Settlement,
        strategy: &dyn RetryStrategy,
        env: &Env<'_>,
    ) -> Action {
        settled.record(env, None, Some(stopped));
        env.ended(stopped);
        Action::Return(match &self.held {
            Some(held) => strategy.surface(held, &settled.failure),
            None => Surface::New,
        })
    }

    fn follow_streak(&mut self, now: Instant, failure: &Failure) {
        let same = |streak: &&mut Streak| {
            streak.code == failure.code
                && (failure.code.is_some() || streak.reason == failure.reason)
        };
        match self.streak.as_mut().filter(same) {
            Some(streak) => streak.count = streak.count.saturating_add(1),
            None => {
                self.streak = Some(Streak {
                    code: failure.code,
                    reason: failure.reason,
                    since: now,
                    count: 1,
                });
            }
        }
    }
}

/// `now + delay`, or a far day where that is past what an `Instant` can say.
pub(super) fn later(now: Instant, delay: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    now.checked_add(delay.min(FAR)).unwrap_or(now)
}
