//! A call, or one of its attempts, that is dropped before it ended.

use std::time::Instant;

use super::{Effects, count_unsuccessful};
use crate::call::state::CallState;
use crate::{AttemptOutcome, AttemptRecord, StopReason};

impl Effects<'_> {
    /// Why a call is dropped at this instant: for the reason that a layer above stored, by the
    /// deadline, or else by its caller.
    pub(crate) fn why_dropped(&self, now: Instant) -> StopReason {
        if let Some(stopped) = self.context.shared().and_then(CallState::stopped) {
            return stopped;
        }
        match self.context.deadline() {
            Some(deadline) if deadline.enforced && deadline.passed(now) => StopReason::Deadline,
            _ => StopReason::Cancelled,
        }
    }

    /// An attempt was dropped before it ended, or after a panic at its record.
    pub(crate) fn cancelled(&self, stopped: Option<StopReason>) {
        let (attempt, kind) = (self.context.attempt(), self.context.kind());
        if self
            .context
            .shared()
            .is_some_and(|state| state.has_record(attempt))
        {
            return;
        }
        if let Some(throttle) = self.throttle() {
            count_unsuccessful(throttle, attempt);
        }
        if self.context.shared().is_some() {
            let report = self.context.end_attempt();
            let mut record = AttemptRecord::new(attempt, kind, AttemptOutcome::Cancelled);
            record.cut_off_in = report.stage;
            record.stopped = stopped;
            self.record(&mut record);
        }
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;
    use crate::CallContext;

    #[test]
    fn a_dropped_call_keeps_the_reason_that_a_layer_stored() {
        let mut context = CallContext::default();
        let handle = context.begin();
        let why = |context| {
            let effects = Effects {
                context,
                transparent: false,
                observer: None,
            };
            effects.why_dropped(crate::clock::now())
        };
        assert_eq!(why(&context), StopReason::Cancelled);
        handle.stop(StopReason::Fatal);
        assert_eq!(why(&context), StopReason::Fatal);
    }
}
