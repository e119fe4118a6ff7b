//! Which attempt is planned, and for when.

use std::time::{Duration, Instant};

use super::super::config_moved::MOST_NUDGED;
use super::{Due, HedgeMachine, Planned};
use crate::attempt::FailedAttempt;
use crate::call_deadline::later;
use crate::policy::{HedgeAdmission, HedgePolicy, HedgeView};
use crate::{AttemptKind, Failure};

/// What follows a failed attempt, whatever fails after it: a retry, if its failure does not count
/// (transparent or always-retry), or a hedge at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    at: Instant,
    pub(super) planned: Planned,
    /// The attempt that failed, if a newer configuration may bring this forward.
    nudge: Option<u32>,
}

/// The next hedge, and what planned it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    at: Instant,
    by: Planner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planner {
    /// The hedge delay, which is asked again when it is due.
    Delay,
    /// This failure, at once.
    Failure(Failure),
    /// A server, by this failure (A6, Pushback): another counted failure replaces it, with its own
    /// pushback or, without one, by the next attempt at once.
    Pushback(Failure),
}

impl HedgeMachine {
    /// The first attempt is in flight and pending: its delay runs from here. Without effect once
    /// that attempt failed, because the failure plans the next one.
    ///
    /// `on` is the instant, or a [`HedgeView`] of the call.
    pub fn pending<'a>(&mut self, on: impl Into<HedgeView<'a>>, policy: &HedgePolicy) {
        if self.sent == 1 && self.in_flight == 1 && self.next.is_none() {
            let on = on.into();
            self.began = Some(on.now);
            self.plan_beside(on, policy);
        }
    }

    /// As [`HedgeMachine::pending`], of an attempt that is pending since then; the policy's delay
    /// was asked at that time, and plans the first hedge for `first`.
    #[cfg(feature = "tokio")]
    pub(crate) fn pending_since(&mut self, began: Instant, first: Option<Instant>) {
        self.began = Some(began);
        let by = Planner::Delay;
        self.next = first.map(|at| Next { at, by });
    }

    /// When the first attempt was first pending, or failed, if that was at its first poll.
    #[cfg(feature = "tokio")]
    pub(crate) const fn began(&self) -> Option<Instant> {
        self.began
    }

    /// What the hedge delay sees.
    fn view<'a>(&self, mut on: HedgeView<'a>) -> HedgeView<'a> {
        let began = self.began.unwrap_or(on.now);
        on.attempts = self.used;
        on.in_flight = self.in_flight;
        on.elapsed = on.now.saturating_duration_since(began);
        on
    }

    /// Plans one attempt beside those in flight.
    fn plan_beside(&mut self, on: HedgeView<'_>, policy: &HedgePolicy) {
        self.next = None;
        if self.alone || !self.has_another() {
            return;
        }
        if let Some(delay) = policy.delay().delay(&self.view(on)) {
            self.plan(on.now, delay, Planner::Delay);
        }
    }

    /// Whether another hedge may be planned.
    pub(super) const fn has_another(&self) -> bool {
        self.frozen.is_none() && self.used < self.max
    }

    pub(super) fn plan(&mut self, now: Instant, delay: Duration, by: Planner) {
        let at = later(now, delay);
        self.next = Some(Next { at, by });
    }

    /// Plans the hedge that this failure asks for, in place of the next one. One that an earlier
    /// failure asked for at once is kept beside it: each failure sends one (A6).
    pub(super) fn plan_after(&mut self, failed: &FailedAttempt, delay: Duration, by: Planner) {
        if let Some(Next {
            at,
            by: Planner::Failure(failure),
        }) = self.next.take()
        {
            self.used += 1;
            let planned = Planned::HedgeAfter(failure);
            let nudge = None;
            self.queued.push(Queued { at, planned, nudge });
        }
        if self.has_another() {
            self.plan(failed.facts.now, delay, by);
        }
    }

    /// Plans the retry of a failed attempt. It takes the place of the next planned hedge, unless
    /// that is due no later (another failure may have asked for it just now) or a server asked for
    /// it. A transparent retry of a transparent retry leaves the plan alone: a backend that is
    /// never reached delays no hedge.
    pub(super) fn replace(&mut self, delay: Duration, planned: Planned, failed: &FailedAttempt) {
        if !self.forbids(&planned) {
            let at = later(failed.facts.now, delay);
            let again = matches!(planned, Planned::Transparent(_))
                && failed.facts.kind == AttemptKind::Transparent;
            let nudges = failed.may_nudge(delay) && self.forced < MOST_NUDGED;
            let nudge = nudges.then_some(failed.facts.attempt);
            self.queued.push(Queued { at, planned, nudge });
            let asked = |next: &Next| matches!(next.by, Planner::Pushback(_));
            self.next = self
                .next
                .filter(|next| again || asked(next) || next.at <= at);
        }
    }

    /// When to ask [`HedgeMachine::due`] next.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let queued = self.queued.iter().map(|queued| queued.at);
        let next = self.next.map(|next| next.at);
        queued.chain(next).min()
    }

    /// Whether a newer configuration may bring forward the retry of this failed attempt: race the
    /// waiter that the attempt left, as long as this is true.
    #[must_use]
    pub fn may_nudge(&self, attempt: u32) -> bool {
        self.queued
            .iter()
            .any(|queued| queued.nudge == Some(attempt))
    }

    /// A newer configuration moved what the call is about: the retry of this failed attempt is due
    /// now. True if there is one.
    pub fn nudged(&mut self, now: Instant, attempt: u32) -> bool {
        let mut queued = self.queued.iter_mut();
        let Some(queued) = queued.find(|queued| queued.nudge == Some(attempt)) else {
            return false;
        };
        queued.at = queued.at.min(now);
        queued.nudge = None;
        true
    }

    /// What is due. Ask until it answers nothing to plan. `on` is the instant, or a [`HedgeView`]
    /// of the call.
    pub fn due<'a>(&mut self, on: impl Into<HedgeView<'a>>, policy: &HedgePolicy) -> Due {
        let on = on.into();
        let now = on.now;
        let due = |queued: &Queued| queued.at <= now;
        if let Some(at) = self.queued.iter().position(due) {
            let planned = self.queued.remove(at).planned;
            self.readying += 1;
            // A hedge that another failure asked for meanwhile keeps its time.
            if self.next.is_none() {
                self.plan_beside(on, policy);
            }
            return Due::Plan(planned);
        }
        if let Some(next) = self.next.filter(|next| next.at <= now) {
            // Beside nothing, not even a planned retry, it is no hedge: there is a failure to go on
            // from.
            let beside = self.in_flight + self.readying > 0 || !self.queued.is_empty();
            if beside && next.by == Planner::Delay && on.can_copy() {
                let view = self.view(on);
                match policy.delay().admit(&view) {
                    HedgeAdmission::Send => {}
                    HedgeAdmission::After(wait) => {
                        // No busy loop, whatever the delay answers: longer than it took to ask.
                        let wait = wait.max(Duration::from_millis(1));
                        self.plan(now, wait, Planner::Delay);
                        return self.held_back();
                    }
                    HedgeAdmission::Never => {
                        self.next = None;
                        return self.held_back();
                    }
                }
            }
            self.used += 1;
            self.readying += 1;
            self.plan_beside(on, policy);
            return Due::Plan(match next.by {
                Planner::Delay => Planned::Hedge,
                Planner::Failure(failure) | Planner::Pushback(failure) => {
                    Planned::HedgeAfter(failure)
                }
            });
        }
        Due::Nothing
    }

    const fn held_back(&mut self) -> Due {
        let first = !std::mem::replace(&mut self.held_back, true);
        Due::HeldBack { first }
    }
}
