//! Strategies with a maximum number of attempts.

use std::time::Duration;

use super::{Decision, RetryStrategy, RetryView};
use crate::OnDeadline;
use crate::policy::backoff::Backoff;

/// A maximum number of attempts with a back-off between them.
///
/// If a delay does not fit before the deadline, the failure is returned at once
/// ([`OnDeadline::GiveUp`]), unless [`MaxAttempts::on_deadline`] or the specification of the
/// protocol ([`Classify::on_deadline`](crate::Classify::on_deadline)) says otherwise.
#[derive(Clone, Debug)]
pub struct MaxAttempts {
    max: u32,
    backoff: Backoff,
    on_deadline: Option<OnDeadline>,
}

impl MaxAttempts {
    /// At most `max` attempts, the first included (0 counts as 1).
    #[must_use]
    pub const fn new(max: u32, backoff: Backoff) -> Self {
        Self {
            max: if max == 0 { 1 } else { max },
            backoff,
            on_deadline: None,
        }
    }

    /// Three attempts, suitable for most clients; full jitter up to 100 ms before the second, 200
    /// ms before the third.
    #[must_use]
    pub const fn standard() -> Self {
        let (from, to) = (Duration::from_millis(100), Duration::from_secs(20));
        Self::new(3, Backoff::exponential(from, to))
    }

    /// What to do if a delay does not fit before the deadline, for every protocol.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = Some(on_deadline);
        self
    }
}

impl Default for MaxAttempts {
    fn default() -> Self {
        Self::standard()
    }
}

impl RetryStrategy for MaxAttempts {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.has_used_up(self.max) {
            return Decision::Exhausted;
        }
        Decision::After(
            self.backoff
                .delay(view.retries_since_pushback, view.previous_delay),
        )
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(self.max)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.on_deadline
    }
}

/// The attempts of [`RetryOnce`].
const ONCE: u32 = 2;

/// Exactly one retry, at once. A pushback that does not fit before the deadline is handled as by
/// [`MaxAttempts`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryOnce;

impl RetryStrategy for RetryOnce {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.has_used_up(ONCE) {
            return Decision::Exhausted;
        }
        Decision::After(Duration::ZERO)
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(ONCE)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        None
    }
}
