//! The throttle of a hedged call.

use std::time::Instant;

use super::count;
use crate::machine::{FailedAttempt, HedgeAction, HedgeMachine, Planned, Withdrawn};
use crate::policy::HedgePolicy;
use crate::{AttemptKind, CallDeadline, Idempotency, RetryThrottle, StopReason};

/// A planned attempt that is not sent, and is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub stopped: StopReason,
    /// What becomes of the call.
    pub then: Withdrawn,
}

/// A hedge machine, between whose steps the throttle is asked.
#[derive(Debug)]
pub struct HedgeDriver {
    /// What is planned, and when.
    pub machine: HedgeMachine,
}

impl HedgeDriver {
    /// A call with such a request, whose first attempt is about to be sent.
    #[must_use]
    pub fn new(policy: &HedgePolicy, idempotency: Idempotency) -> Self {
        Self {
            machine: HedgeMachine::for_call(policy, idempotency),
        }
    }

    /// What follows a failed attempt, whose record is complete then.
    pub fn failed(
        &mut self,
        failed: &mut FailedAttempt,
        policy: &HedgePolicy,
        throttle: Option<&dyn RetryThrottle>,
    ) -> HedgeAction {
        self.machine.failed(failed);
        if let Some(throttle) = throttle {
            count(throttle, failed);
        }
        self.machine.decide(failed, policy)
    }

    /// A planned attempt's service is ready: the attempt's number, if it may be sent.
    ///
    /// # Errors
    ///
    /// Why it is not sent.
    pub fn permit(
        &mut self,
        now: Instant,
        planned: Planned,
        deadline: Option<CallDeadline>,
        throttle: Option<&dyn RetryThrottle>,
    ) -> Result<u32, Refused> {
        let after = planned.after();
        let asked = throttle.filter(|_| planned.kind() == AttemptKind::Hedge);
        let mut permitted = self.machine.permit(now, &planned, deadline);
        if permitted.is_ok()
            && asked.is_some_and(|asked| !(asked.allows(after) && asked.spend(after)))
        {
            permitted = Err(StopReason::Throttled);
        }
        match permitted {
            Ok(()) => Ok(self.machine.sent(planned)),
            Err(stopped) => Err(self.withdrawn(stopped, deadline)),
        }
    }

    /// A planned attempt is not sent.
    pub fn withdrawn(&mut self, stopped: StopReason, deadline: Option<CallDeadline>) -> Refused {
        let then = self.machine.withdrawn(stopped, deadline);
        Refused { stopped, then }
    }
}
