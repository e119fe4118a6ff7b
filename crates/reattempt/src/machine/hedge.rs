//! The hedge machine: several attempts in flight at once (A6, Hedging Policy).

use std::time::{Duration, Instant};

use super::retry::later;
use super::settle::{Env, MOST_NUDGED, Settlement};
use super::transparent::TransparentRetries;
use crate::failure::reason::UNKNOWN;
use crate::policy::HedgePolicy;
use crate::policy::backoff::Backoff;
use crate::{
    AttemptKind, Failure, Findings, Idempotency, OnDeadline, ServerPushback, Stage, Stopped,
    Verdict,
};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before [`HedgeMachine::wake`].
    Nothing,
    /// Prepare one more attempt, then call [`HedgeMachine::permit`].
    Plan(AttemptKind),
}

/// Whether a prepared attempt may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Send it with this attempt number.
    Send(u32),
    /// It is refused and used up; the other attempts continue.
    Refused,
    /// It is refused, and no other attempt is in flight or planned: return the last failure.
    Return,
    /// The deadline has passed and nothing is in flight: let the deadline end the call.
    Expire,
}

/// What to do after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeAction {
    /// End the call with this failure: drop the other attempts, then call [`Env::ended`] with this
    /// reason, so that the end of the call is the last event an observer receives.
    Return(Stopped),
    /// Keep this failure as the last one and continue. A failure that was [cut
    /// off](Findings::cut_off) is kept only if there is no other.
    Go,
    /// Send nothing more and let the deadline end the call.
    Expire,
}

/// An attempt that replaces one whose failure does not count (transparent or always-retry).
#[derive(Clone, Copy, Debug)]
struct Mend {
    at: Instant,
    kind: AttemptKind,
    /// The failed attempt.
    of: u32,
    /// A newer configuration may make it due earlier.
    nudge: bool,
}

/// The decisions of one hedged call.
#[derive(Debug)]
pub struct HedgeMachine {
    max: u32,
    /// Planned attempts, the first included: sent, being prepared, or refused.
    used: u32,
    sent: u32,
    in_flight: u32,
    readying: u32,
    /// The most recently failed attempt.
    last_failed: u32,
    /// When the next hedge is due.
    next: Option<Instant>,
    /// `next` was set by server pushback (A6, Pushback); only the pushback of another failure
    /// replaces it.
    asked: bool,
    /// One per failure, so that two which are due at the same instant are both sent.
    mends: Vec<Mend>,
    frozen: Option<Stopped>,
    /// Only one attempt may be in flight: the call is not idempotent, and its policy hedges only
    /// idempotent calls.
    alone: bool,
    /// The throttle refused the latest hedge. Unless one more attempt is sent, this is the stop
    /// reason.
    throttled: bool,
    forced: u32,
    transparent: TransparentRetries,
}

impl HedgeMachine {
    /// A machine for one idempotent call under this policy, created before its first attempt is
    /// sent.
    #[must_use]
    pub fn new(policy: &HedgePolicy) -> Self {
        Self::for_call(policy, Idempotency::Idempotent)
    }

    /// A machine for one call with this idempotency, created before its first attempt is sent.
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

    /// Whether another attempt could follow the first. If not, the driver moves the request.
    #[must_use]
    pub const fn may_follow(&self, may_force: bool) -> bool {
        may_force || self.max > 1
    }

    /// The first attempt was sent and is pending: the hedging delay starts now. No effect if that
    /// attempt has failed, because the failure planned the next attempt.
    pub fn pending(&mut self, now: Instant, policy: &HedgePolicy) {
        if self.sent == 1 && self.in_flight == 1 && self.next.is_none() {
            self.plan_beside(now, policy);
        }
    }

    /// Plans a hedge while other attempts are in flight.
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

    /// Plans a retry of the failed attempt. It replaces the next planned hedge, unless that hedge
    /// is due no later (another failure may just have requested it) or server pushback set it. A
    /// transparent retry of a transparent retry does not change the plan, so a backend that is
    /// never reached does not delay hedges forever.
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

    /// When to call [`HedgeMachine::due`] next.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let mends = self.mends.iter().map(|mend| mend.at);
        mends.chain(self.next).min()
    }

    /// True if a newer configuration may make the retry of this failed attempt due earlier. While
    /// it is true, the driver polls the attempt's waiter.
    #[must_use]
    pub fn may_nudge(&self, attempt: u32) -> bool {
        let mut mends = self.mends.iter();
        mends.any(|mend| mend.of == attempt && mend.nudge)
    }

    /// A newer configuration moved the call's target: the retry of the attempt of `env` is due now.
    pub fn nudged(&mut self, now: Instant, env: &Env<'_>) {
        let failed = env.context.attempt();
        let nudge = |mend: &&mut Mend| mend.of == failed && mend.nudge;
        if let Some(mend) = self.mends.iter_mut().find(nudge) {
            mend.at = mend.at.min(now);
            mend.nudge = false;
            env.waited_until(now);
        }
    }

    /// What is due at this instant. Call it until it returns [`Due::Nothing`].
    pub fn due(&mut self, now: Instant, policy: &HedgePolicy) -> Due {
        if let Some(at) = self.mends.iter().position(|mend| mend.at <= now) {
            let kind = self.mends.remove(at).kind;
            self.readying += 1;
            // A hedge that another failure requested meanwhile stays planned.
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

    /// Whether a planned attempt may be sent now that its service is ready. Called once per
    /// attempt; a refusal uses it up. `env.context` is the context of the call.
    pub fn permit(&mut self, now: Instant, kind: AttemptKind, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        let counted = kind == AttemptKind::Hedge;
        let refused = if self.frozen.is_some() {
            // A "do not retry" may have arrived while this attempt was being prepared: no new hedge
            // then.
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

    /// The number of the next permitted attempt.
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.sent + 1
    }

    /// The service of a planned attempt failed before it was ready: that attempt is used up; others
    /// stay planned.
    pub fn broken(&mut self, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        self.withdrawn(Stopped::Fatal, env)
    }

    /// The request of a planned attempt could not be copied, so later copies would be refused too.
    pub fn refused(&mut self, env: &Env<'_>) -> Permit {
        self.readying = self.readying.saturating_sub(1);
        self.withdrawn(Stopped::NotReplayable, env)
    }

    fn withdrawn(&mut self, stopped: Stopped, env: &Env<'_>) -> Permit {
        env.refused(stopped);
        self.throttled |= stopped == Stopped::Throttled;
        match stopped {
            // A throttled call does not wait for tokens: with no attempt in flight that could still
            // win, the failure is returned now (A6). The throttle does not apply to transparent and
            // forced retries.
            Stopped::Throttled if self.in_flight == 0 => self.next = None,
            // The failure of one clone of the service says nothing about the next clone.
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
                // Nothing follows it, and no `Deadline` layer ends the call later.
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

    /// Allows no further attempt; those in flight may still win (a request that exceeds its
    /// buffer).
    pub fn freeze(&mut self, stopped: Stopped) {
        self.frozen.get_or_insert(stopped);
        self.next = None;
        self.mends.clear();
    }

    /// True once no further attempt is made: attempts being prepared need not be waited for, and
    /// are refused by [`HedgeMachine::permit`].
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    fn is_over(&self) -> bool {
        self.in_flight == 0 && self.readying == 0 && self.wake().is_none()
    }

    /// An attempt failed; `env.context` is the context of that attempt.
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
            // The error is not the server's: it is not counted, does not fail the call, and no
            // hedge follows it.
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
                // Neither an attempt limit nor the throttle bounds this retry, so the back-off
                // must.
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

    /// A pending attempt was cut off because another attempt continues alone (A6, Memory
    /// Management): it is cancelled at once. `env.context` is the context of that attempt.
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
                    // No other attempt is in flight, so this is the end of the call.
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
