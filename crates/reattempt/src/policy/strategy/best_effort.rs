//! Best effort (RFC 0049, Best Effort).

use std::time::Duration;

use super::{Decision, RetryStrategy, RetryView};
use crate::OnDeadline;
use crate::policy::backoff::{Backoff, Jitter};

/// Retries until success or the deadline: 1, 2, 4 … 256, then 500 ms (RFC 0049, Best Effort).
///
/// The default of the key-value preset and of Couchbase's services. It has no maximum of attempts:
/// put a `Deadline` layer outside.
#[derive(Clone, Debug)]
pub struct BestEffort {
    backoff: Backoff,
    on_deadline: OnDeadline,
}

impl BestEffort {
    /// With RFC 0049's delays, 1 to 500 ms, without jitter.
    #[must_use]
    pub const fn new() -> Self {
        let (from, to) = (Duration::from_millis(1), Duration::from_millis(500));
        Self::with_backoff(Backoff::exponential(from, to).jitter(Jitter::None))
    }

    /// Uses another back-off (RFC 0049's "different backoff calculator"): one of [`Backoff`]'s, or
    /// a custom calculation with [`Backoff::calculated`].
    #[must_use]
    pub const fn with_backoff(backoff: Backoff) -> Self {
        Self {
            backoff,
            on_deadline: OnDeadline::Cap,
        }
    }

    /// What to do if a delay does not fit; [`OnDeadline::Cap`] by default.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }
}

impl Default for BestEffort {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryStrategy for BestEffort {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        Decision::After(self.backoff.delay(view.retries, view.previous_delay))
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(self.on_deadline)
    }
}
