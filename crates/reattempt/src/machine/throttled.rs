//! What a throttle has to do with a failed attempt.

use super::FailedAttempt;
use crate::ServerPushback;

impl FailedAttempt {
    /// Whether the throttle has a part in it: not in one that was cut off or is retried
    /// transparently.
    #[must_use]
    pub const fn is_for_throttle(&self) -> bool {
        !self.facts.cut_off && self.transparent_delay.is_none()
    }

    /// The server answered the request, and not that it failed: "not found", for example.
    pub(crate) fn is_final_answer(&self) -> bool {
        self.failure.is_answer() && self.is_for_throttle() && !self.counts()
    }

    /// Whether the throttle counts it: retryable failures, and any with a "do not retry" (A6,
    /// Throttling), unless a transparent or an always-retry reason decides.
    #[must_use]
    pub fn counts(&self) -> bool {
        let stop = self.facts.report.pushback == Some(ServerPushback::Stop);
        // An open circuit says nothing that the failures which opened it have not said.
        let counted = self.retryable && !self.facts.report.circuit_open || stop;
        counted && self.is_for_throttle() && !self.is_forced()
    }

    /// A circuit breaker refused it. The throttle does not count that, and is asked for what
    /// follows unless that is transparent.
    pub(crate) fn was_refused(&self) -> bool {
        self.facts.report.circuit_open && self.is_for_throttle()
    }
}
