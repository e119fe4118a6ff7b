//! The hedge machine: several attempts at once (A6, Hedging Policy).

use std::time::{Duration, Instant};

use super::retry::later;
use super::settle::{Env, MOST_NUDGED, Settlement};
use super::transparent::TransparentRetries;
use crate::backoff::Backoff;
use crate::policy::HedgePolicy;
use crate::reason::UNKNOWN;
use crate::{
    AttemptKind, Failure, Findings, Idempotency, OnDeadline, ServerPushback, Stage, Stopped,
    Verdict,
};

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
    /// The time is up and nothing else is out: let the deadline end the call.
    Expire,
}

/// What to do after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeAction {
    /// End the call with this failure: drop the others, and after them say [`Env::ended`] with this
    /// reason, so that the end is the last that anybody hears of the call.
    Return(Stopped),
    /// Keep this failure as the last one, and go on. One that was [cut off](Findings::cut_off) is
    /// kept only where there is no other.
    Go,
    /// Send nothing more and let the deadline end the call.
    Expire,
}

/// An attempt that takes the place of one that failed without counting (transparent, always
/// retried).
#[derive(Clone, Copy, Debug)]
struct Mend {
    at: Instant,
    kind: AttemptKind,
    /// The attempt that failed.
    of: u32,
    /// A newer configuration may bring it forward.
    nudge: bool,
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
    /// The attempt that failed last.
    last_failed: u32,
    /// When the next hedge is planned.
    next: Option<Instant>,
    /// That is the server's own word (A6, Pushback), which nothing but another failure's puts
    /// aside.
    asked: bool,
    /// Each is owed to its own failure, so that two at one instant never stand in for each other.
    mends: Vec<Mend>,
    frozen: Option<Stopped>,
    /// No attempt goes out beside another: the call is not idempotent, and its policy is for calls
    /// that are.
    alone: bool,
    /// The throttle held the latest hedge back: unless one more goes out, that is why none
    /// followed.
    throttled: bool,
    forced: u32,
    transparent: TransparentRetries,
}

impl HedgeMachine {
    /// A machine for one idempotent call under this policy; its first attempt is about to be sent.
    #[must_use]
    pub fn new(policy: &HedgePolicy) -> Self {
        Self::for_call(policy, Idempotency::Idempotent)
    }

    /// A machine for one such call under this policy; its first attempt is about to be sent.
    #[must_use]
    pub fn for_call(policy: &HedgePolicy, idempotency: Idempotency) -> Self {
        Self {
            alone: !policy.hedges(idempotency),
            max: policy.max_attempts(),
            used: 1,
            sent: 1,
            in_flight: 1,
            readying: 0,
            last_failed: 0,
            next: None,
            asked: false,
            mends: Vec::new(),
            frozen: None,
            throttled: false,
            forced: 0,
            transparent: TransparentRetries::default(),
        }
    }

    /// Could another attempt follow the first? If not, the driver moves the request.
    #[must_use]
    pub const fn may_follow(&self, may_force: bool) -> bool {
        may_force || self.max > 1
    }

    /// The first attempt is out and has no answer yet: its delay runs from here. Without effect
    /// once that attempt failed, which plans the next one itself.
    pub fn pending(&mut self, now: Instant, policy: &HedgePolicy) {
        if self.sent == 1 && self.in_flight == 1 && self.next.is_none() {
            self.plan_beside(now, policy);
        }
    }

    /// Plans one beside those that are out.
    fn plan_beside(&mut self, now: Instant, policy: &HedgePolicy) {
        if self.alone {
            self.next = None;
        } else {
            self.plan(now, policy.delay(self.used));
        }
    }

    fn plan(&mut self, now: Instant, delay: Duration) {
        let may_follow = self.frozen.is_none() && self.used < self.max;
        self.next = may_follow.then(|| later(now, delay));
        self.asked = false;
    }

    /// The failed attempt is mended by another, which takes the place of the next planned hedge
    /// unless that is due no later (another failure may have asked for it just now) or a server
    /// asked for it. A transparent retry of a transparent retry leaves the plan alone: a backend
    /// that is never reached holds no hedge back for ever.
    fn mend(
        &mut self,
        now: Instant,
        delay: Duration,
        kind: AttemptKind,
        settled: &Settlement,
        env: &Env<'_>,
    ) {
        if self.frozen.is_none() {
            let at = later(now, delay);
            let again = env.context.kind() == kind && kind == AttemptKind::Transparent;
            self.mends.push(Mend {
                at,
                kind,
                of: self.last_failed,
                nudge: settled.may_nudge(delay) && self.forced < MOST_NUDGED,
            });
            if !again && !self.asked {
                self.next = self.next.filter(|next| *next <= at);
            }
        }
    }

    /// When to ask [`HedgeMachine::due`] next.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let mends = self.mends.iter().map(|mend| mend.at);
        mends.chain(self.next).min()
    }

    /// A newer configuration may bring forward what mends this failed attempt: race the waiter that
    /// was left for it, as long as this is true.
    #[must_use]
    pub fn may_nudge(&self, attempt: u32) -> bool {
        let mut mends = self.mends.iter();
        mends.any(|mend| mend.of == attempt && mend.nudge)
    }

    /// A newer configuration moved what the call is about: what mends the failed attempt of `env`
    /// is due now.
    pub fn nudged(&mut self, now: Instant, env: &Env<'_>) {
        let failed = env.context.attempt();
        let nudge = |mend: &&mut Mend| mend.of == failed && mend.nudge;
        if let Some(mend) = self.mends.iter_mut().find(nudge) {
            mend.at = mend.at.min(now);
            mend.nudge = false;
            env.waited_until(now);
        }
    }

    /// What is due at this instant? Ask until it answers [`Due::Nothing`].
    pub fn due(&mut self, now: Instant, policy: &HedgePolicy) -> Due {
        if let Some(at) = self.mends.iter().position(|mend| mend.at <= now) {
            let kind = self.mends.remove(at).kind;
            self.readying += 1;
            // A hedge that another failure asked for meanwhile stays where it is.
            if self.next.is_none() {
                self.plan_beside(now, policy);
            }
            return Due::Plan(kind);
        }
        if self.next.is_some_and(|at| at <= now) {
            self.used += 1;
            self.readying += 1;
            self.plan_beside(now, policy);
            return Due::Plan(AttemptKind::Hedge);
        }
        Due::Nothing
    }

    /// A planned attempt's service is ready: may it go out? Asked once; a refusal uses it up.
    /// `env.context` is the call's.
    pub fn permit(&mut self, now: Instant, kind: AttemptKind, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        let counted = kind == AttemptKind::Hedge;
        let refused = if self.frozen.is_some() {
            // Decided while this one was being made ready: no new hedge after a "do not retry".
            self.frozen
        } else if !env.replayable {
            Some(Stopped::NotReplayable)
        } else if env.context.limit().is_some_and(|limit| limit.passed(now)) {
            Some(Stopped::Deadline)
        } else if counted && !(env.allows(None) && env.spend(None)) {
            Some(Stopped::Throttled)
        } else {
            None
        };
        match refused {
            None => {
                self.in_flight += 1;
                self.sent += 1;
                self.throttled &= !counted;
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

    /// A planned attempt's service broke before it was ready: that attempt is used up, others are
    /// planned as before.
    pub fn broken(&mut self, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        self.withdrawn(Stopped::Fatal, env)
    }

    /// A planned attempt's request refused to be copied: it will refuse the next one too.
    pub fn refused(&mut self, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        self.withdrawn(Stopped::NotReplayable, env)
    }

    fn withdrawn(&mut self, stopped: Stopped, env: &Env<'_>) -> Permit {
        env.refused(stopped);
        self.throttled |= stopped == Stopped::Throttled;
        match stopped {
            // A throttled call never waits for better times: with nothing out that could still win,
            // the failure is due now (A6). A mend is not the throttle's to hold back.
            Stopped::Throttled if self.in_flight == 0 => self.next = None,
            // One clone of the service that broke says nothing of the next.
            Stopped::Throttled | Stopped::Fatal => {}
            _ => self.freeze(stopped),
        }
        if !self.is_over() {
            return Permit::Refused;
        }
        let stopped = self.frozen.unwrap_or(stopped);
        if let Some(block) = env.context.shared() {
            block.amend(self.last_failed, |record| {
                record.stopped = Some(stopped);
                // Nothing follows it, and nobody waits for a deadline.
                if stopped == Stopped::Throttled {
                    record.delay = None;
                }
            });
        }
        env.ended(stopped);
        let enforced = env.context.limit().is_some_and(|limit| limit.enforced);
        if stopped == Stopped::Deadline && enforced {
            Permit::Expire
        } else {
            Permit::Return
        }
    }

    /// No further attempt from here on; those that are out may still win (a request that no longer
    /// fits its buffer).
    pub fn freeze(&mut self, stopped: Stopped) {
        self.frozen.get_or_insert(stopped);
        self.next = None;
        self.mends.clear();
    }

    /// True once no further attempt is made: what is being made ready need not be waited for, and
    /// is refused when asked.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    fn is_over(&self) -> bool {
        self.in_flight == 0 && self.readying == 0 && self.wake().is_none()
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
            return HedgeAction::Return(Stopped::Success);
        };
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(block) = env.context.shared() {
            block.settled(env.context.seat());
        }
        if settled.cut_off {
            // No word of the server's: neither counted nor the call's, and no hedge can follow it.
            self.freeze(Stopped::NotReplayable);
            return self.after_failure(now, &settled, policy, env);
        }
        self.last_failed = env.context.attempt();
        if !env.replayable {
            self.freeze(Stopped::NotReplayable);
        }
        let limit = env.context.limit();
        let unseen = if env.transparent && env.replayable && !settled.is_stop(env) {
            self.transparent
                .next(settled.failure.transparent, limit.is_some())
        } else {
            None
        };
        settled.mended = unseen.is_some();
        if !settled.mended {
            settled.count(env);
            if !settled.retryable {
                settled.record(env, None, Some(Stopped::Fatal));
                return HedgeAction::Return(Stopped::Fatal);
            }
        }
        if settled.is_stop(env) {
            self.freeze(Stopped::Pushback);
        }
        if let Some(delay) = unseen {
            self.mend(now, delay, AttemptKind::Transparent, &settled, env);
        } else if settled.is_forced() {
            let own = Backoff::controlled().delay(self.forced, None);
            let delay = match settled.pushback {
                // Neither the maximum of attempts nor the throttle bounds it: the back-off has to.
                Some(ServerPushback::After(asked)) => asked.max(own),
                _ => own,
            };
            self.mend(now, delay, AttemptKind::Retry, &settled, env);
            self.forced = self.forced.saturating_add(1);
        } else if self.alone && !settled.failure.safe {
            self.freeze(Stopped::NotIdempotent);
        } else {
            let asked = match settled.pushback {
                Some(ServerPushback::After(delay)) => Some(delay),
                _ => None,
            };
            self.plan(now, asked.unwrap_or_default());
            self.asked = asked.is_some();
        }
        self.after_failure(now, &settled, policy, env)
    }

    /// An attempt of which no failure is known can go no further, because another goes on alone
    /// (A6, Memory Management): it is cancelled at once. `env.context` is that attempt's own.
    pub fn cut_off(&mut self, now: Instant, policy: &HedgePolicy, env: &Env<'_>) -> HedgeAction {
        let found = Findings {
            cut_off: true,
            ..env.context.findings()
        };
        let unknown = Failure::new(UNKNOWN, found.stage.unwrap_or(Stage::InFlight));
        self.failed(now, &Verdict::Fatal(unknown), found, policy, env)
    }

    fn after_failure(
        &mut self,
        now: Instant,
        settled: &Settlement,
        policy: &HedgePolicy,
        env: &Env<'_>,
    ) -> HedgeAction {
        if self.in_flight > 0 || self.readying > 0 {
            let in_time = |at: &Instant| env.context.limit().is_none_or(|limit| *at < limit.at);
            let delay = self.wake().filter(in_time);
            let delay = delay.map(|at| at.saturating_duration_since(now));
            settled.record(env, delay, self.frozen);
            return HedgeAction::Go;
        }
        let Some(at) = self.wake() else {
            let used_up = if self.throttled {
                Stopped::Throttled
            } else {
                Stopped::Attempts
            };
            let stopped = self.frozen.unwrap_or(used_up);
            settled.record(env, None, Some(stopped));
            return HedgeAction::Return(stopped);
        };
        let delay = at.saturating_duration_since(now);
        match env.context.limit() {
            Some(limit) if at >= limit.at => {
                let waits = limit.enforced && policy.deadline_choice() == OnDeadline::Cap;
                settled.record(env, waits.then_some(delay), Some(Stopped::Deadline));
                self.freeze(Stopped::Deadline);
                if waits {
                    // Nothing else is out that anybody could hear of.
                    env.ended(Stopped::Deadline);
                    HedgeAction::Expire
                } else {
                    HedgeAction::Return(Stopped::Deadline)
                }
            }
            _ => {
                settled.record(env, Some(delay), None);
                HedgeAction::Go
            }
        }
    }
}
