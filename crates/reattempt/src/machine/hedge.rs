//! The hedge machine: several attempts at once (A6, Hedging Policy).

use std::time::{Duration, Instant};

use super::failed_attempt::{Facts, FailedAttempt, MOST_NUDGED};
use super::transparent::TransparentRetries;
use crate::info::AttemptRecord;
use crate::limit::later;
use crate::policy::backoff::Backoff;
use crate::policy::{HedgeAdmission, HedgePolicy, HedgeView};
use crate::{AttemptKind, CallDeadline, Idempotency, OnDeadline, StopReason, Verdict};

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before [`HedgeMachine::wake`].
    Nothing,
    /// Get a service ready for one more attempt, then ask [`HedgeMachine::permit`].
    Plan(AttemptKind),
    /// The hedge delay held back a hedge: until [`HedgeMachine::wake`], if that is set.
    HeldBack,
}

/// What becomes of a call after a planned attempt was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// Other attempts are in flight or planned.
    OthersGoOn,
    /// Nothing is in flight or planned: the last failure ends the call.
    Over {
        /// The attempt that failed last; its record gets the reason.
        attempt: u32,
        /// Why no further attempt is sent.
        stopped: StopReason,
        /// The deadline ends the call instead of the failure.
        expire: bool,
    },
}

/// What to do after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeAction {
    /// End the call with this failure, after the other attempts were dropped.
    Return(StopReason),
    /// Keep this failure as the last one, and go on. One that was [cut off](Facts::cut_off) is kept
    /// only if there is no other.
    Go,
    /// Send nothing more and let the deadline end the call.
    Expire,
}

/// A retry of an attempt whose failure does not count (transparent or always-retry).
#[derive(Clone, Copy, Debug)]
struct Replacement {
    at: Instant,
    kind: AttemptKind,
    /// The attempt that failed.
    of: u32,
    /// A newer configuration may bring it forward.
    nudge: bool,
}

/// The next hedge, and what planned it.
#[derive(Clone, Copy, Debug)]
struct Next {
    at: Instant,
    by: Planner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planner {
    /// The hedge delay, which is asked again when it is due.
    Delay { held_back: bool },
    /// A failure.
    Failure,
    /// A server (A6, Pushback): only another failure's pushback replaces it.
    Pushback,
}

/// The decisions of one call that is hedged.
///
/// Each failed attempt goes through [`HedgeMachine::attempt_failed`] and [`HedgeMachine::decide`].
/// The machine applies nothing: it returns what to do and what to record.
#[derive(Debug)]
pub struct HedgeMachine {
    max: u32,
    /// Planned attempts, the first one included: sent, being made ready, or refused.
    used: u32,
    sent: u32,
    in_flight: u32,
    readying: u32,
    /// The attempt that failed last.
    last_failed: u32,
    next: Option<Next>,
    /// When the first attempt was sent, once it was pending.
    began: Option<Instant>,
    /// One for each failure that does not count, so that two at one instant are two attempts.
    replacements: Vec<Replacement>,
    frozen: Option<StopReason>,
    /// No attempt is sent beside another: the call is not idempotent, and its policy is for calls
    /// that are.
    alone: bool,
    /// The throttle refused the latest hedge: unless one more is sent, that is why none followed.
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
            began: None,
            replacements: Vec::new(),
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

    /// The first attempt is in flight and pending: its delay runs from here. Without effect once
    /// that attempt failed, because the failure plans the next one.
    ///
    /// `on` is the instant, or a [`HedgeView`] with the call's route and backend.
    pub fn pending<'a>(&mut self, on: impl Into<HedgeView<'a>>, policy: &HedgePolicy) {
        if self.sent == 1 && self.in_flight == 1 && self.next.is_none() {
            let on = on.into();
            self.began = Some(on.now);
            self.plan_beside(on, policy);
        }
    }

    /// When the first attempt was first pending, unless it ended at once.
    #[cfg(feature = "tokio")]
    pub(crate) const fn began(&self) -> Option<Instant> {
        self.began
    }

    /// What the hedge delay sees.
    fn view<'a>(&self, on: HedgeView<'a>) -> HedgeView<'a> {
        let began = self.began.unwrap_or(on.now);
        let by = self.next.map(|next| next.by);
        HedgeView {
            attempts: self.used,
            in_flight: self.in_flight,
            elapsed: on.now.saturating_duration_since(began),
            again: by == Some(Planner::Delay { held_back: true }),
            ..on
        }
    }

    /// Plans one attempt beside those in flight.
    fn plan_beside(&mut self, on: HedgeView<'_>, policy: &HedgePolicy) {
        self.next = None;
        if self.alone || !self.has_another() {
            return;
        }
        if let Some(delay) = policy.delay().delay(&self.view(on)) {
            self.plan(on.now, delay, Planner::Delay { held_back: false });
        }
    }

    /// Whether another hedge may be planned.
    const fn has_another(&self) -> bool {
        self.frozen.is_none() && self.used < self.max
    }

    fn plan(&mut self, now: Instant, delay: Duration, by: Planner) {
        let at = later(now, delay);
        self.next = Some(Next { at, by });
    }

    /// Plans the retry of a failed attempt. It takes the place of the next planned hedge, unless
    /// that is due no later (another failure may have asked for it just now) or a server asked for
    /// it. A transparent retry of a transparent retry leaves the plan alone: a backend that is
    /// never reached delays no hedge.
    fn replace(&mut self, delay: Duration, kind: AttemptKind, failed: &FailedAttempt) {
        if self.frozen.is_none() {
            let at = later(failed.facts.now, delay);
            let again = failed.facts.kind == kind && kind == AttemptKind::Transparent;
            self.replacements.push(Replacement {
                at,
                kind,
                of: failed.facts.attempt,
                nudge: failed.may_nudge(delay) && self.forced < MOST_NUDGED,
            });
            let stays = |next: &Next| again || next.by == Planner::Pushback || next.at <= at;
            self.next = self.next.filter(stays);
        }
    }

    /// When to ask [`HedgeMachine::due`] next.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let replacements = self.replacements.iter().map(|replacement| replacement.at);
        let next = self.next.map(|next| next.at);
        replacements.chain(next).min()
    }

    /// Whether a newer configuration may bring forward the retry of this failed attempt: race the
    /// waiter that the attempt left, as long as this is true.
    #[must_use]
    pub fn may_nudge(&self, attempt: u32) -> bool {
        let mut replacements = self.replacements.iter();
        replacements.any(|replacement| replacement.of == attempt && replacement.nudge)
    }

    /// A newer configuration moved what the call is about: the retry of this failed attempt is due
    /// now. True if there is one.
    pub fn nudged(&mut self, now: Instant, attempt: u32) -> bool {
        let nudge = |replacement: &&mut Replacement| replacement.of == attempt && replacement.nudge;
        let Some(replacement) = self.replacements.iter_mut().find(nudge) else {
            return false;
        };
        replacement.at = replacement.at.min(now);
        replacement.nudge = false;
        true
    }

    /// What is due. Ask until it answers nothing to plan. `on` is the instant, or a [`HedgeView`]
    /// with the call's route and backend.
    pub fn due<'a>(&mut self, on: impl Into<HedgeView<'a>>, policy: &HedgePolicy) -> Due {
        let on = on.into();
        let now = on.now;
        let due = |replacement: &Replacement| replacement.at <= now;
        if let Some(at) = self.replacements.iter().position(due) {
            let kind = self.replacements.remove(at).kind;
            self.readying += 1;
            // A hedge that another failure asked for meanwhile keeps its time.
            if self.next.is_none() {
                self.plan_beside(on, policy);
            }
            return Due::Plan(kind);
        }
        if let Some(next) = self.next.filter(|next| next.at <= now) {
            if matches!(next.by, Planner::Delay { .. }) {
                let view = self.view(on);
                match policy.delay().admit(&view) {
                    HedgeAdmission::Send => {}
                    HedgeAdmission::After(wait) => {
                        // No busy loop, whatever the delay answers.
                        let wait = wait.max(Duration::from_micros(1));
                        self.plan(now, wait, Planner::Delay { held_back: true });
                        return Due::HeldBack;
                    }
                    HedgeAdmission::Never => {
                        self.next = None;
                        return Due::HeldBack;
                    }
                }
            }
            self.used += 1;
            self.readying += 1;
            self.plan_beside(on, policy);
            return Due::Plan(AttemptKind::Hedge);
        }
        Due::Nothing
    }

    /// Whether a planned attempt whose service is ready may be sent, before the throttle is asked.
    ///
    /// # Errors
    ///
    /// Why not. [`HedgeMachine::withdrawn`] follows.
    pub fn permit(&self, now: Instant, limit: Option<CallDeadline>) -> Result<(), StopReason> {
        match self.frozen {
            // Decided while the service became ready: no new hedge after a "do not retry".
            Some(stopped) => Err(stopped),
            None if limit.is_some_and(|limit| limit.passed(now)) => Err(StopReason::Deadline),
            None => Ok(()),
        }
    }

    /// A planned attempt is sent. Returns its number.
    pub fn sent(&mut self, kind: AttemptKind) -> u32 {
        self.readying = self.readying.saturating_sub(1);
        self.in_flight += 1;
        self.sent += 1;
        self.throttled &= kind != AttemptKind::Hedge;
        self.sent
    }

    /// The number of the next attempt.
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.sent + 1
    }

    /// A planned attempt is not sent, and is used up: the throttle or [`HedgeMachine::permit`]
    /// refused it, its service failed ([`StopReason::Fatal`]), or the request cannot be copied
    /// ([`StopReason::NotReplayable`]).
    pub fn withdrawn(&mut self, stopped: StopReason, limit: Option<CallDeadline>) -> Withdrawn {
        self.readying = self.readying.saturating_sub(1);
        self.throttled |= stopped == StopReason::Throttled;
        match stopped {
            // A throttled call does not wait until the throttle has recovered: with nothing in
            // flight that could succeed, the failure is returned now (A6). The throttle does not
            // refuse replacements.
            StopReason::Throttled if self.in_flight == 0 => self.next = None,
            // One clone of the service that failed says nothing about the next.
            StopReason::Throttled | StopReason::Fatal => {}
            _ => self.freeze(stopped),
        }
        if !self.is_over() {
            return Withdrawn::OthersGoOn;
        }
        let stopped = self.frozen.unwrap_or(stopped);
        let enforced = limit.is_some_and(|limit| limit.enforced);
        Withdrawn::Over {
            attempt: self.last_failed,
            stopped,
            expire: stopped == StopReason::Deadline && enforced,
        }
    }

    /// No further attempt from here on; those in flight may still succeed (a request that no longer
    /// fits its buffer).
    pub fn freeze(&mut self, stopped: StopReason) {
        self.frozen.get_or_insert(stopped);
        self.next = None;
        self.replacements.clear();
    }

    /// Whether no further attempt is sent: a service that is getting ready need not be waited for.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    fn is_over(&self) -> bool {
        self.in_flight == 0 && self.readying == 0 && self.wake().is_none()
    }

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
