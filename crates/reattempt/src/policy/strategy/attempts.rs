//! Strategies with a maximum number of attempts.

use std::time::Duration;

use super::{Decision, RetryStrategy, RetryView};
use crate::OnDeadline;
use crate::policy::backoff::{Backoff, Jitter};

/// A maximum number of attempts with a back-off between them.
#[derive(Clone, Debug)]
pub struct MaxAttempts {
    max: u32,
    backoff: Backoff,
    on_deadline: OnDeadline,
}

/// Three attempts, with full jitter up to 100 ms, 200 ms …: suitable for most clients. The same as
/// [`MaxAttempts::standard`], without settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl RetryStrategy for Standard {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        const { &MaxAttempts::standard() }.decide(view)
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(STANDARD_ATTEMPTS)
    }
}

const STANDARD_ATTEMPTS: u32 = 3;

impl MaxAttempts {
    /// At most `max` attempts, the first included (0 counts as 1).
    #[must_use]
    pub const fn new(max: u32, backoff: Backoff) -> Self {
        Self {
            max: if max == 0 { 1 } else { max },
            backoff,
            on_deadline: OnDeadline::Cap,
        }
    }

    /// Three attempts; full jitter up to 100 ms before the second, 200 ms before the third.
    #[must_use]
    pub const fn standard() -> Self {
        let (from, to) = (Duration::from_millis(100), Duration::from_secs(20));
        Self::new(
            STANDARD_ATTEMPTS,
            Backoff::exponential(from, to).jitter(Jitter::Full),
        )
    }

    /// What to do if a delay does not fit; [`OnDeadline::Cap`] by default.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
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
        Decision::After(
            self.backoff
                .delay(view.retries_since_pushback, view.previous_delay),
        )
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(self.max)
    }

    fn on_deadline(&self) -> OnDeadline {
        self.on_deadline
    }
}

/// Exactly one retry, at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryOnce;

impl RetryStrategy for RetryOnce {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::After(Duration::ZERO)
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(2)
    }
}
