//! The retry machine: one attempt after another (A6, Retry Policy; RFC 0049, Retry Orchestration).

use std::time::{Duration, Instant};

use super::settle::{Env, MOST_NUDGED, Settlement};
use super::transparent::TransparentRetries;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{Deferred, StrategyError};
use crate::{
    AttemptKind, Decision, Failure, Findings, OnDeadline, RetryReason, RetryStrategy, RetryView,
    ServerPushback, Stopped, Surface, Verdict,
};

/// What the driver keeps during the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// An error is kept until the next attempt is sent; a response is dropped now.
    Error,
    /// The outcome that just arrived, error or response: a later gate may still return it.
    New,
    /// The outcome that is already held.
    Held,
}

/// Wait, then send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The end of the wait; `None` sends at once without a timer.
    pub until: Option<Instant>,
    /// The kind of the next attempt.
    pub kind: AttemptKind,
    /// What to keep during the wait.
    pub keep: Keep,
    /// A newer configuration may end the wait early: poll the attempt's waiter.
    pub nudge: bool,
}

/// What to do after a failed attempt.
pub enum Action {
    /// End the call with this failure.
    Return(Surface),
    /// Wait, then send again.
    Wait(Wait),
    /// Poll the strategy's deferred decision while keeping the new outcome, then call
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
    /// The time limit has passed and no layer enforces it: return the kept failure.
    Return,
    /// The time limit has passed: let the deadline end the call.
    Expire,
}

/// The decisions of one retried call.
///
/// Call [`RetryMachine::failed`] for each failed attempt and [`Env::succeeded`] for the one that
/// succeeds.
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
    /// The settlement that awaits a deferred decision.
    asked: Option<Settlement>,
}

/// Consecutive failures with the same code.
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

    /// Whether another attempt could follow `attempt` (from 1), which is about to be sent. If not,
    /// the driver moves the request instead of copying it. `may_force`: the classifier can return
    /// verdicts that bypass the maximum.
    #[must_use]
    pub fn may_follow(&self, strategy: &dyn RetryStrategy, may_force: bool) -> bool {
        may_force || !self.exhausted(strategy)
    }

    fn exhausted(&self, strategy: &dyn RetryStrategy) -> bool {
        strategy
            .max_attempts()
            .is_some_and(|max| self.retries.saturating_add(1) >= max)
    }

    /// An attempt failed. A verdict that is not a failure returns the result unchanged.
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
                // Neither an attempt limit nor a throttle bounds this retry, so the back-off must.
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

    /// A deferred decision is available. An error fails the call at once.
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

    /// Whether the attempt may be sent now that the wait is over and the service is ready.
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

    /// The planned attempt was sent: what the throttle paid for it is not refunded.
    pub const fn sent(&mut self) {
        self.spent = false;
    }

    /// A newer configuration ended the wait early: the record stores the time actually waited.
    pub fn nudged(&self, now: Instant, env: &Env<'_>) {
        env.waited_until(now);
    }

    /// The request could not be copied after all: the kept failure is returned.
    pub fn refused(&mut self, env: &Env<'_>) {
        self.late(Stopped::NotReplayable, env);
    }

    /// The service failed before it was ready for another attempt: the kept failure is returned.
    pub fn broken(&mut self, env: &Env<'_>) {
        self.late(Stopped::Fatal, env);
    }

    /// The call was dropped. A failure whose decision was pending is recorded now, since nothing
    /// would record it later.
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

    /// The gates after the strategy: the throttle allows the retry, the request can be replayed,
    /// the delay fits before the deadline, the throttle pays. The server's delay replaces the
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
                // Without an attempt limit only the back-off bounds the number of attempts.
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
            // If the back-off bounds the number of attempts, a server must not reset it.
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

/// `now + delay`, or a distant instant if an `Instant` cannot represent the sum.
pub(super) fn later(now: Instant, delay: Duration) -> Instant {
    // More than 31 years.
    const FAR: Duration = Duration::from_secs(1_000_000_000);
    now.checked_add(delay.min(FAR)).unwrap_or(now)
}
