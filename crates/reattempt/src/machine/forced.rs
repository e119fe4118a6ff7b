//! Reasons that always retry.

use std::time::Duration;

use super::FailedAttempt;
use crate::policy::backoff::Backoff;

impl FailedAttempt {
    /// Whether an always-retry reason decides, past strategy, throttle and idempotency.
    pub(super) fn is_forced(&self) -> bool {
        self.retryable && self.failure.reason.always_retry()
    }

    /// The delay of such a retry.
    pub(super) fn forced_delay(&self, retries: u32) -> Duration {
        let own = Backoff::controlled().delay(retries, None);
        match self.pushback_delay() {
            // No maximum of attempts and no throttle bounds this retry: the back-off has to.
            Some(asked) => asked.max(own),
            None if self.goes_at_once(retries) => Duration::ZERO,
            None => own,
        }
    }
}
