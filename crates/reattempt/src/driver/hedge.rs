//! The effects of a hedged call.

use std::time::Instant;

use super::{CallEffects, allows, count, spend, waited_until};
use crate::machine::{Due, Facts, HedgeAction, HedgeMachine, Withdrawn};
use crate::policy::{HedgePolicy, HedgeView};
use crate::{AttemptKind, Idempotency, StopReason, Verdict};

/// Whether a planned attempt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Send it with this number.
    Send(u32),
    /// It is refused and used up; the others go on.
    Refused,
    /// It is refused, and nothing else is in flight or planned: return the last failure.
    Return,
    /// The deadline has passed and nothing else is in flight: let it end the call.
    Expire,
}

/// A hedge machine with its effects.
#[derive(Debug)]
pub struct HedgeDriver {
    /// What is planned, and when.
    pub machine: HedgeMachine,
    /// The hedge delay held back a hedge, which is reported once.
    held_back: bool,
}

impl HedgeDriver {
    /// A call with such a request, whose first attempt is about to be sent.
    #[must_use]
    pub fn new(policy: &HedgePolicy, idempotency: Idempotency) -> Self {
        Self {
            machine: HedgeMachine::for_call(policy, idempotency),
            held_back: false,
        }
    }

    /// An attempt failed; `effects` are of that attempt, and `facts` come from them. After
    /// [`HedgeAction::Return`] the layer drops the other attempts and then calls
    /// [`CallEffects::ended`], so that the end is the last event of the call.
    pub fn failed(
        &mut self,
        facts: Facts,
        verdict: &Verdict,
        policy: &HedgePolicy,
        effects: &impl CallEffects,
    ) -> HedgeAction {
        let Some(mut failed) = self.machine.attempt_failed(facts, verdict) else {
            return HedgeAction::Return(StopReason::Success);
        };
        effects.close_slot();
        count(effects, &mut failed);
        let (action, record) = self.machine.decide(&failed, policy);
        effects.record(record);
        if action == HedgeAction::Expire {
            effects.ended(StopReason::Deadline);
        }
        action
    }

    /// An attempt in flight can go no further; `effects` are of that attempt.
    pub fn cut_off(
        &mut self,
        facts: Facts,
        policy: &HedgePolicy,
        effects: &impl CallEffects,
    ) -> HedgeAction {
        let (facts, verdict) = facts.of_cut_off();
        self.failed(facts, &verdict, policy, effects)
    }

    /// What is due, as [`HedgeMachine::due`]. The first hedge of the call that its delay holds back
    /// is reported as refused: [`StopReason::Throttled`], as by a budget. It may be sent later.
    pub fn due<'a>(
        &mut self,
        on: impl Into<HedgeView<'a>>,
        policy: &HedgePolicy,
        effects: &impl CallEffects,
    ) -> Due {
        let due = self.machine.due(on, policy);
        if due == Due::HeldBack && !std::mem::replace(&mut self.held_back, true) {
            effects.hedge_refused(StopReason::Throttled);
        }
        due
    }

    /// A planned attempt's service is ready: may it be sent? `effects` are of the call.
    pub fn permit(
        &mut self,
        now: Instant,
        kind: AttemptKind,
        effects: &impl CallEffects,
    ) -> Permit {
        let mut permitted = self.machine.permit(now, effects.limit());
        let counted = kind == AttemptKind::Hedge;
        if permitted.is_ok() && counted && !(allows(effects, None) && spend(effects, None)) {
            permitted = Err(StopReason::Throttled);
        }
        match permitted {
            Ok(()) => Permit::Send(self.machine.sent(kind)),
            Err(stopped) => self.withdrawn(stopped, effects),
        }
    }

    /// A planned attempt is not sent.
    pub fn withdrawn(&mut self, stopped: StopReason, effects: &impl CallEffects) -> Permit {
        effects.hedge_refused(stopped);
        match self.machine.withdrawn(stopped, effects.limit()) {
            Withdrawn::OthersGoOn => Permit::Refused,
            Withdrawn::Over {
                attempt,
                stopped,
                expire,
            } => {
                effects.amend(attempt, |record| {
                    record.stopped = Some(stopped);
                    // No attempt follows it, and no deadline is waited for.
                    if stopped == StopReason::Throttled {
                        record.delay = None;
                    }
                });
                effects.ended(stopped);
                if expire {
                    Permit::Expire
                } else {
                    Permit::Return
                }
            }
        }
    }

    /// A newer configuration moved what the call is about; `effects` are of the failed attempt.
    pub fn nudged(&mut self, now: Instant, effects: &impl CallEffects) {
        if self.machine.nudged(now, effects.attempt()) {
            waited_until(effects, now);
        }
    }
}
