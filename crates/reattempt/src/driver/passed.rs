//! A call that no recovery layer acts on.

use std::time::Instant;

use super::{Effects, count};
use crate::machine::FailedAttempt;
use crate::{AttemptOutcome, StopReason, Verdict};

impl Effects<'_> {
    /// A call ended that no recovery layer acts on: its one attempt is counted and recorded all the
    /// same (A6: every outgoing RPC changes the token count).
    pub(crate) fn passed(&self, now: Instant, verdict: &Verdict) {
        let failure = verdict.failure();
        match failure.and_then(|_| FailedAttempt::new(&self.facts(now), verdict)) {
            None => self.succeeded(*verdict == Verdict::Committed),
            Some(mut failed) => {
                if let Some(throttle) = self.throttle() {
                    count(throttle, &mut failed);
                }
                failed.stop(match failed.record.outcome {
                    AttemptOutcome::Retry => StopReason::Strategy,
                    _ => StopReason::Fatal,
                });
                self.settled(&mut failed.record);
            }
        }
        // Last: if user code panicked, the drop of the call takes it up.
        self.claim_passed();
    }

    /// Several layers may have passed the call through: the first that sees its end records it.
    pub(crate) fn claim_passed(&self) {
        if let Some(state) = self.context.shared() {
            state.claim();
        }
    }
}
