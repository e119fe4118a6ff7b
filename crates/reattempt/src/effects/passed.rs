//! A call that no recovery layer acts on.

use std::time::Instant;

use super::Effects;
use crate::Verdict;
use crate::driver::{CallEffects, count};
use crate::machine::FailedAttempt;

impl Effects<'_> {
    /// A call ended that no recovery layer acts on: its one attempt is counted and recorded all the
    /// same (A6: every outgoing RPC changes the token count).
    pub(crate) fn passed(&self, now: Instant, verdict: &Verdict) {
        self.claim_passed();
        let Some(mut failed) = FailedAttempt::new(self.facts(now), verdict) else {
            return self.succeeded(*verdict == Verdict::Committed);
        };
        self.close_slot();
        count(self, &mut failed);
        let record = failed.record_passed();
        let stopped = record.stopped;
        self.record(record);
        if let Some(stopped) = stopped {
            self.ended(stopped);
        }
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
