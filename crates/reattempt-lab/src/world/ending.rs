//! Calls end: by an outcome, a deadline, or because their caller has gone.

use reattempt::StopReason;
use reattempt::admission::{Criticality, was_accepted};
use reattempt::driver::count_unsuccessful;
use reattempt::health::Outcome;
use reattempt::policy::AttemptEnd;
use reattempt_http::gives_up;

use super::World;
use super::call::{Call, NONE, Progress};
use super::caller::{admission, feed, parts, split};
use crate::policy::{OUTCOME_SUCCESS, Way, answer_outcome};

impl World<'_> {
    /// The deadline of a call passes.
    pub(super) fn expired(&mut self, id: u32) {
        self.drop_driver(id);
        self.end(id, StopReason::Deadline);
    }

    /// The caller of a recorded call drops it.
    pub(super) fn leaves(&mut self, id: u32) {
        self.drop_driver(id);
        self.end(id, StopReason::Cancelled);
    }

    /// What a throttle paid for a retry that is not sent is returned.
    fn drop_driver(&mut self, id: u32) {
        let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
            return;
        };
        if let Progress::Retry {
            failing: Some(failing),
            ..
        } = &mut call.progress
        {
            failing.driver.unsent(own.throttle.as_deref());
        }
    }

    /// The caller of a call has gone.
    pub(super) fn abort(&mut self, id: u32) {
        self.drop_driver(id);
        if let Some(call) = self.calls.remove(id) {
            self.cancel_all(&call, StopReason::Cancelled);
        }
    }

    /// Its attempts in flight are dropped.
    fn cancel_all(&mut self, call: &Call, how: StopReason) {
        match &call.progress {
            Progress::Retry { flight: NONE, .. } => {}
            Progress::Retry { flight, .. } => self.drop_attempt(call, *flight, how),
            Progress::Hedge(hedging) => {
                for flight in &hedging.flights {
                    self.feed_dropped(call, *flight, how);
                    self.drop_attempt(call, *flight, how);
                }
            }
        }
    }

    /// A hedge delay that learns is fed with what was cancelled, too.
    fn feed_dropped(&self, call: &Call, flight: u32, how: StopReason) {
        let own = parts(&self.tiers, usize::from(call.tier), call.process, call.kind);
        let end = match how {
            StopReason::Deadline | StopReason::Cancelled => AttemptEnd::Dropped,
            _ => AttemptEnd::Lost,
        };
        if let (Some(Way::Hedge(policy)), Some(attempt)) =
            (own.map(|(_, own)| &own.way), self.attempts.get(flight))
        {
            if !call.progress.teaches(attempt.number) {
                return;
            }
            let took = std::time::Duration::from_nanos(self.now - attempt.sent);
            feed(policy, attempt.number, self.instant(self.now), took, end);
        }
    }

    fn drop_attempt(&mut self, call: &Call, flight: u32, how: StopReason) {
        let own = parts(&self.tiers, usize::from(call.tier), call.process, call.kind);
        let throttle = own.and_then(|(_, own)| own.throttle.as_ref());
        if let (Some(throttle), Some(attempt)) = (throttle, self.attempts.get(flight)) {
            count_unsuccessful(&**throttle, attempt.number);
        }
        let dropped = match how {
            StopReason::Deadline => Outcome::TimedOut,
            _ => Outcome::Dropped,
        };
        self.cancel(flight, dropped);
    }

    /// A call ends, and returns its last failure.
    pub(super) fn fails(&mut self, id: u32, how: StopReason) {
        self.end_as(id, how, true);
    }

    /// A call ends.
    pub(super) fn end(&mut self, id: u32, how: StopReason) {
        self.end_as(id, how, how != StopReason::Deadline);
    }

    fn end_as(&mut self, id: u32, how: StopReason, returns: bool) {
        let Some(call) = self.calls.remove(id) else {
            return;
        };
        let cuts_off = how == StopReason::Deadline && call.progress.is_in_flight();
        self.cancel_all(&call, how);
        let tier = usize::from(call.tier);
        let table = &self.tiers[tier].tables[usize::from(call.kind)];
        if let Some(admission) = admission(&self.tiers, tier, call.process) {
            let last = || table.verdict(call.last).failure().copied();
            let last = || last().filter(|_| !cuts_off);
            if let Some(accepted) = was_accepted(how, call.sent > 0, last) {
                admission.ended(Criticality::CRITICAL, accepted);
            }
        }
        if call.serves == NONE {
            if call.counted {
                self.counts.ended(call.arrived, self.now, how);
            }
            return;
        }
        let outcome = match how {
            StopReason::Success => OUTCOME_SUCCESS,
            StopReason::Deadline if !returns => table.passed_on_deadline,
            // A server that sheds a call says so.
            StopReason::Admission => answer_outcome(self.scenario.overload),
            _ => table.passed_on(call.last),
        };
        let retries = call.sent.saturating_sub(1 + call.transparent);
        let gave_up = call.marked || gives_up(how, retries);
        let marks = self.tiers[tier].text.hop_marks;
        if marks && gave_up && how != StopReason::Success {
            if let Some(served) = self.attempts.get_mut(call.serves) {
                served.marked = true;
            }
        }
        self.finish(call.serves, outcome);
    }
}
