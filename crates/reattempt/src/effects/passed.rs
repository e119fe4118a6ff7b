//! A call that no recovery layer acts on.

use std::time::Instant;

use super::Effects;
use crate::driver::count;
use crate::machine::FailedAttempt;
use crate::{AttemptOutcome, StopReason, Verdict};

impl Effects<'_> {
    /// A call ended that no recovery layer acts on: its one attempt is counted and recorded all the
    /// same (A6: every outgoing RPC changes the token count).
    pub(crate) fn passed(&self, now: Instant, verdict: &Verdict) {
        self.claim_passed();
        let failure = verdict.failure();
        let failed = failure.and_then(|_| FailedAttempt::new(&self.facts(now), verdict));
        let Some(mut failed) = failed else {
            return self.succeeded(*verdict == Verdict::Committed);
        };
        if let Some(throttle) = self.throttle() {
            count(throttle, &mut failed);
        }
        failed.stop(match failed.record.outcome {
            AttemptOutcome::Retry => StopReason::Strategy,
            _ => StopReason::Fatal,
        });
        self.settled(&mut failed.record);
    }

    /// A call that no recovery layer acts on is dropped before its end.
    #[cfg(feature = "tokio")]
    pub(crate) fn passed_and_dropped(&self, now: Instant) {
        self.claim_passed();
        let stopped = self.why_dropped(now);
        self.cancelled(Some(stopped));
        self.ended(stopped);
    }

    /// Several layers may have passed the call through: the first that sees its end records it.
    fn claim_passed(&self) {
        if let Some(state) = self.context.shared() {
            state.claim();
        }
    }
}
