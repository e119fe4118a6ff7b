//! Hedges: what is due is asked of the policy's own machine.

use reattempt::machine::{Due, Withdrawn};
use reattempt::{RetryThrottle, StopReason};

use super::World;
use super::call::{Call, Progress};
use super::caller::{deadline, split};
use super::events::What;
use crate::policy::Way;
use crate::report::Gate;

impl World<'_> {
    /// A hedge may be due.
    pub(super) fn hedge(&mut self, id: u32, at: u64) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        if let Progress::Hedge(hedging) = &mut call.progress {
            if hedging.wakes == Some(at) {
                hedging.wakes = None;
                self.plan_hedges(id);
            }
        }
    }

    /// Sends what is due, and plans the next look.
    pub(super) fn plan_hedges(&mut self, id: u32) {
        let (now, base) = (self.instant(self.now), self.simulated.clock.base);
        loop {
            let mut due = Vec::new();
            let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
                return;
            };
            let (Progress::Hedge(hedging), Way::Hedge(policy), false) =
                (&mut call.progress, &own.way, call.expires)
            else {
                return;
            };
            let mut held_back = false;
            while hedging.driver.machine.wake().is_some_and(|at| at <= now) {
                match hedging.driver.machine.due(now, policy) {
                    Due::Plan(planned) => due.push(planned),
                    Due::HeldBack { first } => held_back |= first,
                    Due::Nothing => break,
                }
            }
            if held_back && call.counted && call.tier == 0 {
                self.counts.held_back(Gate::Budget);
            }
            if due.is_empty() {
                return self.plan_wake(id);
            }
            for planned in due {
                let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
                    return;
                };
                let (deadline, throttle) = (deadline(base, call.deadline), own.throttle.as_deref());
                let Progress::Hedge(hedging) = &mut call.progress else {
                    return;
                };
                let Err(refused) = hedging.driver.permit(now, planned, deadline, throttle) else {
                    self.send(id, planned.kind());
                    continue;
                };
                let throttled = refused.stopped == StopReason::Throttled;
                if throttled && call.counted && call.tier == 0 {
                    let budget = own.budget.as_ref();
                    let spent = budget.is_some_and(|budget| !budget.allows(None));
                    self.counts
                        .held_back(if spent { Gate::Budget } else { Gate::Throttled });
                }
                match refused.then {
                    Withdrawn::OthersGoOn => {}
                    Withdrawn::Over { expire: true, .. } => {
                        call.expires = true;
                        return;
                    }
                    Withdrawn::Over { stopped, .. } => return self.fails(id, stopped),
                }
            }
        }
    }

    fn plan_wake(&mut self, id: u32) {
        let Some(call) = self.calls.get(id) else {
            return;
        };
        let Progress::Hedge(hedging) = &call.progress else {
            return;
        };
        let wake = hedging.driver.machine.wake().map(|at| self.nanos(at));
        // After the end of time nothing is due. A hedge that is held back until then would be
        // looked at there again and again.
        let wake = wake.filter(|at| *at != u64::MAX);
        let Some(at) = wake.filter(|_| wake != hedging.wakes) else {
            return;
        };
        let generation = self.calls.generation(id);
        self.events
            .after(self.now, at - self.now, What::Hedge, id, generation);
        if let Some(Call {
            progress: Progress::Hedge(hedging),
            ..
        }) = self.calls.get_mut(id)
        {
            hedging.wakes = Some(at);
        }
    }
}
