//! The hedge machine: several attempts at once (A6, Hedging Policy).

use std::time::{Duration, Instant};

use super::retry::later;
use super::settle::{Env, Settlement};
use super::transparent::TransparentRetries;
use crate::backoff::Backoff;
use crate::policy::HedgePolicy;
use crate::{AttemptKind, Findings, OnDeadline, ServerPushback, Stopped, Verdict};

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before [`HedgeMachine::wake`].
    Nothing,
    /// Make one more attempt ready, then ask [`HedgeMachine::permit`].
    Plan(AttemptKind),
}

/// Whether an attempt that is ready may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Send it under this number.
    Send(u32),
    /// It is held back and used up; the others go on.
    Refused,
    /// It is held back, nothing else is out or will be: return the last failure.
    Return,
}

/// What to do after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeAction {
    /// End the call with this failure; drop the others.
    Return,
    /// Keep this failure as the last one, and go on.
    Go,
    /// Send nothing more and let the deadline end the call.
    Expire,
}

/// The decisions of one call that is hedged.
#[derive(Debug)]
pub struct HedgeMachine {
    max: u32,
    /// Planned attempts, the first included: sent, being made ready, or refused.
    used: u32,
    sent: u32,
    in_flight: u32,
    readying: u32,
    next: Option<(Instant, AttemptKind)>,
    frozen: Option<Stopped>,
    forced: u32,
    transparent: TransparentRetries,
}

impl HedgeMachine {
    /// A machine for one call under this policy; its first attempt is about to be sent.
    #[must_use]
    pub fn new(policy: &HedgePolicy) -> Self {
        Self {
            max: policy.max_attempts(),
            used: 1,
            sent: 1,
            in_flight: 1,
            readying: 0,
            next: None,
            frozen: None,
            forced: 0,
            transparent: TransparentRetries::default(),
        }
    }

    /// Could another attempt follow the first? If not, the driver moves the request.
    #[must_use]
    pub const fn may_follow(&self, may_force: bool) -> bool {
        may_force || self.max > 1
    }

    /// The first attempt is out and has no answer yet: its delay runs from here.
    pub fn pending(&mut self, now: Instant, policy: &HedgePolicy) {
        self.plan(now, policy.delay(self.used), AttemptKind::Hedge);
    }

    fn plan(&mut self, now: Instant, delay: Duration, kind: AttemptKind) {
        self.next =
            (self.frozen.is_none() && self.used < self.max).then(|| (later(now, delay), kind));
    }

    /// When to ask [`HedgeMachine::due`] next.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    /// What is due at this instant? Ask until it answers [`Due::Nothing`].
    pub fn due(&mut self, now: Instant, policy: &HedgePolicy) -> Due {
        match self.next {
            Some((at, kind)) if at <= now => {
                self.used += 1;
                self.readying += 1;
                self.plan(now, policy.delay(self.used), AttemptKind::Hedge);
                Due::Plan(kind)
            }
            _ => Due::Nothing,
        }
    }

    /// A planned attempt's service is ready: may it go out? Asked once; a refusal uses it up.
    /// `env.context` is the call's.
    pub fn permit(&mut self, now: Instant, kind: AttemptKind, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        let counted = kind == AttemptKind::Hedge;
        let refused = if !env.replayable {
            Some(Stopped::NotReplayable)
        } else if env.context.limit().is_some_and(|limit| limit.passed(now)) {
            Some(Stopped::Deadline)
        } else if counted && env.throttle().is_some_and(|throttle| !throttle.permits()) {
            Some(Stopped::Throttled)
        } else {
            None
        };
        match refused {
            None => {
                self.in_flight += 1;
                self.sent += 1;
                Permit::Send(self.sent)
            }
            Some(stopped) => self.withdrawn(stopped, env),
        }
    }

    /// The number under which the next permitted attempt goes out.
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.sent + 1
    }

    /// A planned attempt could not be made (its service broke, its request refused to be copied).
    pub fn broken(&mut self, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        self.withdrawn(Stopped::NotReplayable, env)
    }

    fn withdrawn(&mut self, stopped: Stopped, env: &Env<'_>) -> Permit {
        if stopped != Stopped::Throttled {
            self.freeze(stopped);
        }
        if self.is_over() {
            env.ended(self.frozen.unwrap_or(stopped));
            return Permit::Return;
        }
        Permit::Refused
    }

    /// No further attempt from here on; those that are out may still win (a request that no longer fits its buffer).
    pub fn freeze(&mut self, stopped: Stopped) {
        self.frozen.get_or_insert(stopped);
        self.next = None;
    }

    const fn is_over(&self) -> bool {
        self.in_flight == 0 && self.readying == 0 && self.next.is_none()
    }

    /// An attempt failed; `env.context` is that attempt's own.
    pub fn failed(
        &mut self,
        now: Instant,
        verdict: &Verdict,
        found: Findings,
        policy: &HedgePolicy,
        env: &Env<'_>,
    ) -> HedgeAction {
        let Some(mut settled) = Settlement::of(now, verdict, found) else {
            return HedgeAction::Return;
        };
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(block) = env.context.shared() {
            block.settled(env.context.attempt());
        }
        if !env.replayable {
            self.freeze(Stopped::NotReplayable);
        }
        let limit = env.context.limit();
        let unseen = if env.transparent && env.replayable && !settled.is_stop() {
            self.transparent
                .next(settled.failure.transparent, limit.is_some())
        } else {
            None
        };
        if unseen.is_none() {
            settled.count(env);
            if !settled.retryable {
                settled.record(env, None, Some(Stopped::Fatal));
                env.ended(Stopped::Fatal);
                return HedgeAction::Return;
            }
        }
        if settled.is_stop() {
            self.freeze(Stopped::Pushback);
        }
        if let Some(delay) = unseen {
            self.used = self.used.saturating_sub(1);
            self.plan(now, delay, AttemptKind::Transparent);
        } else if settled.is_forced() {
            self.used = self.used.saturating_sub(1);
            let delay = match settled.pushback {
                Some(ServerPushback::After(delay)) => delay,
                _ => Backoff::controlled().delay(self.forced, None),
            };
            self.forced = self.forced.saturating_add(1);
            self.plan(now, delay, AttemptKind::Retry);
        } else {
            let delay = match settled.pushback {
                Some(ServerPushback::After(delay)) => delay,
                _ => Duration::ZERO,
            };
            self.plan(now, delay, AttemptKind::Hedge);
        }
        self.after_failure(now, &settled, policy, env)
    }

    fn after_failure(
        &mut self,
        now: Instant,
        settled: &Settlement,
        policy: &HedgePolicy,
        env: &Env<'_>,
    ) -> HedgeAction {
        if self.in_flight > 0 || self.readying > 0 {
            settled.record(env, None, self.frozen);
            return HedgeAction::Go;
        }
        let Some((at, _)) = self.next else {
            let stopped = self.frozen.unwrap_or(Stopped::Attempts);
            settled.record(env, None, Some(stopped));
            env.ended(stopped);
            return HedgeAction::Return;
        };
        let delay = at.saturating_duration_since(now);
        match env.context.limit() {
            Some(limit) if at >= limit.at => {
                settled.record(env, Some(delay), Some(Stopped::Deadline));
                env.ended(Stopped::Deadline);
                self.next = None;
                if limit.enforced && policy.deadline_choice() == OnDeadline::Cap {
                    HedgeAction::Expire
                } else {
                    HedgeAction::Return
                }
            }
            _ => {
                settled.record(env, Some(delay), None);
                HedgeAction::Go
            }
        }
    }
}
