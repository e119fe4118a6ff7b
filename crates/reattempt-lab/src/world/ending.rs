//! Calls end: by an outcome, a deadline, or because their caller has gone.

use reattempt::StopReason;
use reattempt::driver::count_unsuccessful;
use reattempt_http::gives_up;

use super::World;
use super::call::{Call, NONE, Progress};
use super::caller::{gates, limit, parts, split};
use crate::policy::OUTCOME_SUCCESS;

impl World<'_> {
    /// The deadline of a call passes.
    pub(super) fn expired(&mut self, id: u32) {
        self.drop_driver(id, StopReason::Deadline);
        self.end(id, StopReason::Deadline);
    }

    /// The caller of a recorded call drops it.
    pub(super) fn leaves(&mut self, id: u32) {
        self.drop_driver(id, StopReason::Cancelled);
        self.end(id, StopReason::Cancelled);
    }

    /// What a throttle paid for a retry that is not sent is returned.
    fn drop_driver(&mut self, id: u32, stopped: StopReason) {
        let base = self.simulated.clock.base;
        let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
            return;
        };
        let gates = gates(&mut call.paid, own, limit(base, call.deadline), call.sent);
        if let Progress::Retry {
            failing: Some(failing),
            ..
        } = &mut call.progress
        {
            failing.driver.dropped(stopped, &gates);
        }
    }

    /// The caller of a call has gone.
    pub(super) fn abort(&mut self, id: u32) {
        self.drop_driver(id, StopReason::Cancelled);
        if let Some(call) = self.calls.remove(id) {
            self.cancel_all(&call);
        }
    }

    /// Its attempts in flight are dropped.
    fn cancel_all(&mut self, call: &Call) {
        match &call.progress {
            Progress::Retry { flight: NONE, .. } => {}
            Progress::Retry { flight, .. } => self.drop_attempt(call, *flight),
            Progress::Hedge(hedging) => {
                for flight in &hedging.flights {
                    self.drop_attempt(call, *flight);
                }
            }
        }
    }

    fn drop_attempt(&mut self, call: &Call, flight: u32) {
        let own = parts(&self.tiers, usize::from(call.tier), call.process, call.kind);
        let throttle = own.and_then(|(_, own)| own.throttle.as_ref());
        if let (Some(throttle), Some(attempt)) = (throttle, self.attempts.get(flight)) {
            count_unsuccessful(&**throttle, attempt.number);
        }
        self.cancel(flight);
    }

    /// A call ends.
    pub(super) fn end(&mut self, id: u32, how: StopReason) {
        let Some(call) = self.calls.remove(id) else {
            return;
        };
        self.cancel_all(&call);
        if call.serves == NONE {
            if call.counted {
                self.counts.ended(call.arrived, self.now, how);
            }
            return;
        }
        let table = &self.tiers[usize::from(call.tier)].tables[usize::from(call.kind)];
        let outcome = match how {
            StopReason::Success => OUTCOME_SUCCESS,
            StopReason::Deadline => table.passed_on_deadline,
            _ => table.passed_on(call.last),
        };
        let retries = call.sent.saturating_sub(1 + call.transparent);
        let gave_up = call.marked || gives_up(how, retries);
        let marks = self.tiers[usize::from(call.tier)].text.hop_marks;
        if marks && gave_up && how != StopReason::Success {
            if let Some(served) = self.attempts.get_mut(call.serves) {
                served.marked = true;
            }
        }
        self.finish(call.serves, outcome);
    }
}
