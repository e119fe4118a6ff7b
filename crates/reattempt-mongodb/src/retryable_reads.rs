//! The strategy: how often, when, and which error is raised (Executing Retryable Read Commands).

use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Stage, Surface};

use crate::FailureDetail;
use crate::reasons::MONGODB_SYSTEM_OVERLOADED;

/// The default of `maxAdaptiveRetries` (client backpressure, MAX_RETRIES).
pub const MAX_ADAPTIVE_RETRIES: u32 = 2;

/// The base of the overload back-off if the server provides none.
const BASE_BACKOFF: Duration = Duration::from_millis(100);

/// The longest overload back-off.
const MAX_BACKOFF: Duration = Duration::from_millis(10_000);

/// How many retries have no delay where only the deadline limits them: some codes leave the server
/// selected, so that nothing else slows the retries down.
const MOST_AT_ONCE: u32 = 16;

/// The bounds of the pause before each further one.
const UNTIL_DEADLINE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Exactly one retry, without delay; raises the most informative error (Executing Retryable Read
/// Commands).
///
/// Which of two failures a call returns depends only on how far the second attempt came. If its
/// command never reached a server (selection, checkout, handshake and authentication, rebuilding
/// the command), the original error is raised. Otherwise the second error is raised, because it
/// shows the caller that an attempt was made.
///
/// The retry has no delay. A client that has to find a new primary may still take up to its server
/// selection timeout: set a deadline above this layer.
///
/// | option | [`seed_2022`](Self::seed_2022) | [`current`](Self::current) |
/// | --- | --- | --- |
/// | [until the deadline](Self::until_deadline) | no | where the call has a deadline |
/// | [overload back-off](Self::overload_backoff) | no | at most 2 retries |
#[derive(Clone, Debug, Default)]
pub struct RetryableReads {
    until_deadline: bool,
    /// The maximum of retries of a call that met an overload error; `None` ignores overload errors.
    max_adaptive_retries: Option<u32>,
    randomness: Randomness,
}

impl RetryableReads {
    /// The specification of 2022-01-25.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            until_deadline: false,
            max_adaptive_retries: None,
            randomness: Randomness::Thread,
        }
    }

    /// The specification of 2026-07: retries until the deadline if the call has one (`timeoutMS`),
    /// and overload back-off with at most [`MAX_ADAPTIVE_RETRIES`] retries. Use it with
    /// [`MongoClassifier::current`](crate::MongoClassifier::current).
    #[must_use]
    pub const fn current() -> Self {
        Self::seed_2022()
            .until_deadline()
            .overload_backoff(MAX_ADAPTIVE_RETRIES)
    }

    /// Retries until the call's deadline, instead of only once; a call without a deadline is still
    /// retried once (the specification since 2022-10-18, with `timeoutMS`).
    ///
    /// Sixteen retries have no delay. Each later one waits a random share of 1 ms, 2 ms, 4 ms and
    /// so on up to 100 ms, so that a server which fails at once is not asked thousands of times.
    /// With [overload back-off](Self::overload_backoff), a wait that would pass the deadline raises
    /// the last error at once; without it, the call waits until its deadline.
    #[must_use]
    pub const fn until_deadline(mut self) -> Self {
        self.until_deadline = true;
        self
    }

    /// Backs off after an overload error (client backpressure): before retry n it waits a random
    /// share of `100 ms * 2^n`, capped at 10 s; a positive `baseBackoffMS` of the error replaces
    /// the 100 ms.
    ///
    /// After one overload error, all retries of the call, including those for other errors, are
    /// limited to `max_retries` (`maxAdaptiveRetries`; 0 retries none). If a delay would pass the
    /// call's deadline, the error is raised at once. The classifier decides which errors are
    /// overload errors:
    /// [`MongoClassifier::with_overload_errors`](crate::MongoClassifier::with_overload_errors).
    #[must_use]
    pub const fn overload_backoff(mut self, max_retries: u32) -> Self {
        self.max_adaptive_retries = Some(max_retries);
        self
    }

    /// The source of the random shares; the thread's generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Whether overload errors cause back-off.
    #[must_use]
    pub const fn backs_off(&self) -> bool {
        self.max_adaptive_retries.is_some()
    }

    /// The maximum of retries in this state of the call; `None` if only the deadline limits them.
    fn most_retries(&self, view: &RetryView<'_>) -> Option<u32> {
        if let Some(max) = self.max_adaptive_retries {
            let earlier = || view.retries > 0 && view.info().count(MONGODB_SYSTEM_OVERLOADED) != 0;
            if is_overload(view.failure) || earlier() {
                return Some(max);
            }
        }
        let no_limit = self.until_deadline && view.deadline.is_some();
        (!no_limit).then_some(1)
    }

    fn delay(&self, view: &RetryView<'_>) -> Duration {
        let ((from, to), step) = if self.backs_off() && is_overload(view.failure) {
            let detail = FailureDetail::of(view.failure);
            let base = detail.base_backoff.unwrap_or(BASE_BACKOFF);
            // The first retry is number 1, with exponent 1.
            ((base.saturating_mul(2), MAX_BACKOFF), view.retries)
        } else if view.retries >= MOST_AT_ONCE && self.most_retries(view).is_none() {
            (UNTIL_DEADLINE, view.retries - MOST_AT_ONCE)
        } else {
            return Duration::ZERO;
        };
        // Nothing overflows: the back-off saturates.
        Backoff::exponential(from, to)
            .jitter(Jitter::Full)
            .randomness(self.randomness.clone())
            .delay(step, None)
    }
}

fn is_overload(failure: &Failure) -> bool {
    failure.reason == MONGODB_SYSTEM_OVERLOADED
}

impl RetryStrategy for RetryableReads {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        match self.most_retries(view) {
            Some(max) if view.retries >= max => Decision::Exhausted,
            _ => Decision::After(self.delay(view)),
        }
    }

    fn max_attempts(&self) -> Option<u32> {
        if self.until_deadline {
            return None;
        }
        let retries = self.max_adaptive_retries.unwrap_or(1).max(1);
        Some(retries.saturating_add(1))
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(if self.backs_off() {
            OnDeadline::GiveUp
        } else {
            OnDeadline::Cap
        })
    }

    fn holds(&self) -> bool {
        true
    }

    fn surface(&self, _held: &Failure, new: &Failure) -> Surface {
        // The new error had no effect: keep the first if all are like that, else the last that is
        // not.
        if new.stage == Stage::Dispatch || FailureDetail::of(new).no_writes {
            Surface::Held
        } else {
            Surface::New
        }
    }
}

#[cfg(test)]
mod tests;
