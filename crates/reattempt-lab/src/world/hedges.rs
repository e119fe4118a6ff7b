//! Hedges: what is due is asked of the policy's own machine.

use reattempt::driver::Permit;
use reattempt::machine::Due;
use reattempt::{RetryThrottle, StopReason};

use super::World;
use super::call::{Call, Progress};
use super::caller::{gates, limit, split};
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
            let of_call = gates(&mut call.paid, own, limit(base, call.deadline), call.sent);
            while hedging.driver.machine.wake().is_some_and(|at| at <= now) {
                match hedging.driver.due(now, policy, &of_call) {
                    Due::Plan(kind) => due.push(kind),
                    Due::HeldBack => {}
                    Due::Nothing => break,
                }
            }
            if of_call.refused.get() && call.counted && call.tier == 0 {
                self.counts.held_back(Gate::Budget);
            }
            if due.is_empty() {
                return self.plan_wake(id);
            }
            for kind in due {
                let Some((call, _, own)) = split(&mut self.calls, &self.tiers, id) else {
                    return;
                };
                let gates = gates(&mut call.paid, own, limit(base, call.deadline), call.sent);
                let Progress::Hedge(hedging) = &mut call.progress else {
                    return;
                };
                let permit = hedging.driver.permit(now, kind, &gates);
                let (ended, refused) = (gates.ended.get(), gates.refused.get());
                if refused && call.counted && call.tier == 0 {
                    let budget = own.budget.as_ref();
                    let spent = budget.is_some_and(|budget| !budget.allows(None));
                    self.counts
                        .held_back(if spent { Gate::Budget } else { Gate::Throttled });
                }
                match permit {
                    Permit::Send(_) => self.send(id, kind),
                    Permit::Refused => {}
                    Permit::Return => return self.end(id, ended.unwrap_or(StopReason::Attempts)),
                    Permit::Expire => {
                        call.expires = true;
                        return;
                    }
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
