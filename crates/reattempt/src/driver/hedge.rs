//! The effects of a hedged call.

use std::time::Instant;

use super::Effects;
use crate::machine::{Facts, HedgeAction, HedgeMachine, Withdrawn};
use crate::policy::HedgePolicy;
use crate::{AttemptKind, Idempotency, StopReason, Verdict};

/// Whether a planned attempt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
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
pub(crate) struct HedgeDriver {
    pub(crate) machine: HedgeMachine,
}

impl HedgeDriver {
    pub(crate) fn new(policy: &HedgePolicy, idempotency: Idempotency) -> Self {
        Self {
            machine: HedgeMachine::for_call(policy, idempotency),
        }
    }

    /// An attempt failed; `effects` are of that attempt, and `facts` come from them. After
    /// [`HedgeAction::Return`] the layer drops the other attempts and then calls
    /// [`Effects::ended`], so that the end is the last event of the call.
    pub(crate) fn failed(
        &mut self,
        facts: Facts,
        verdict: &Verdict,
        policy: &HedgePolicy,
        effects: &Effects<'_>,
    ) -> HedgeAction {
        let Some(failed) = self.machine.attempt_failed(facts, verdict) else {
            return HedgeAction::Return(StopReason::Success);
        };
        effects.close_slot();
        let milli_tokens = effects.count(&failed);
        let (action, record) = self.machine.decide(&failed, policy);
        effects.record_failure(record, milli_tokens);
        if action == HedgeAction::Expire {
            effects.ended(StopReason::Deadline);
        }
        action
    }

    /// An attempt in flight can go no further; `effects` are of that attempt.
    pub(crate) fn cut_off(
        &mut self,
        facts: Facts,
        policy: &HedgePolicy,
        effects: &Effects<'_>,
    ) -> HedgeAction {
        let (facts, verdict) = facts.of_cut_off();
        self.failed(facts, &verdict, policy, effects)
    }

    /// A planned attempt's service is ready: may it be sent? `effects` are of the call.
    pub(crate) fn permit(
        &mut self,
        now: Instant,
        kind: AttemptKind,
        effects: &Effects<'_>,
    ) -> Permit {
        let mut permitted = self.machine.permit(now, effects.context.limit());
        let counted = kind == AttemptKind::Hedge;
        if permitted.is_ok() && counted && !(effects.allows(None) && effects.spend(None)) {
            permitted = Err(StopReason::Throttled);
        }
        match permitted {
            Ok(()) => Permit::Send(self.machine.sent(kind)),
            Err(stopped) => self.withdrawn(stopped, effects),
        }
    }

    /// A planned attempt is not sent.
    pub(crate) fn withdrawn(&mut self, stopped: StopReason, effects: &Effects<'_>) -> Permit {
        effects.refused(stopped);
        match self.machine.withdrawn(stopped, effects.context.limit()) {
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
    pub(crate) fn nudged(&mut self, now: Instant, effects: &Effects<'_>) {
        if self.machine.nudged(now, effects.context.attempt()) {
            effects.waited_until(now);
        }
    }
}
