//! The strategy: how often, when, and which error is raised (Executing Retryable Read Commands).

use std::time::Duration;

use reattempt_core::backoff::{Backoff, Jitter, Randomness};
use reattempt_core::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Stage, Surface};

use crate::AdaptiveTokens;
use crate::reasons::MONGODB_SYSTEM_OVERLOADED;

/// `maxAdaptiveRetries` where nobody says otherwise (client backpressure, MAX_RETRIES).
pub const MAX_ADAPTIVE_RETRIES: u32 = 2;

/// The base of the overload back-off where the server names none.
const BASE_BACKOFF: Duration = Duration::from_millis(100);

/// The longest overload back-off.
const MAX_BACKOFF: Duration = Duration::from_millis(10_000);

/// Exactly one retry, at once, and the error that tells the caller most (Executing Retryable Read
/// Commands).
///
/// Which of two failures a call returns depends on nothing but how far the second one came: if its
/// command never reached a server (selection, checkout, handshake and authentication, rebuilding
/// the command), the original is raised; anything else is the second's, because the caller can
/// infer from it that an attempt was made.
///
/// The retry itself has no delay. A client that has to find a new primary may still take up to its
/// server selection timeout: put a deadline outside.
///
/// | option | [`seed_2022`](Self::seed_2022) | [`current`](Self::current) |
/// | --- | --- | --- |
/// | [until the deadline](Self::until_deadline) | no | where the call has a time limit |
/// | [overload back-off](Self::overload_backoff) | no | at most 2 retries |
#[derive(Clone, Debug, Default)]
pub struct RetryableReads {
    until_deadline: bool,
    /// The most retries of a call that met an overload error; `None` knows no such errors.
    max_adaptive_retries: Option<u32>,
    tokens: Option<AdaptiveTokens>,
    randomness: Randomness,
}

impl RetryableReads {
    /// The specification of 2022-01-25.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            until_deadline: false,
            max_adaptive_retries: None,
            tokens: None,
            randomness: Randomness::Thread,
        }
    }

    /// The specification of 2026-07: until the deadline where the call has one (`timeoutMS`), and
    /// overload back-off with at most [`MAX_ADAPTIVE_RETRIES`] retries. Goes with
    /// [`MongoClassifier::current`](crate::MongoClassifier::current).
    #[must_use]
    pub const fn current() -> Self {
        Self::seed_2022()
            .until_deadline()
            .overload_backoff(MAX_ADAPTIVE_RETRIES)
    }

    /// Sends again, at once, as often as fits before the call's time limit instead of only once; a
    /// call without a limit is still retried once (the specification since 2022-10-18, with
    /// `timeoutMS`).
    #[must_use]
    pub const fn until_deadline(mut self) -> Self {
        self.until_deadline = true;
        self
    }

    /// Backs off after an overload error (client backpressure): before retry number n a random
    /// share of `100 ms * 2^n`, at most of 10 s; a positive `baseBackoffMS` on the error replaces
    /// the 100 ms.
    ///
    /// One overload error at any point of a call limits all its retries, others too, to
    /// `max_retries` (`maxAdaptiveRetries`; 0 retries none). A delay that would pass the call's
    /// time limit is not begun: the error is raised at once. Which errors are overload errors is
    /// the classifier's word:
    /// [`MongoClassifier::with_overload_errors`](crate::MongoClassifier::with_overload_errors).
    #[must_use]
    pub const fn overload_backoff(mut self, max_retries: u32) -> Self {
        self.max_adaptive_retries = Some(max_retries);
        self
    }

    /// A retry after an overload error also needs a token of the client's bucket; without one the
    /// error is raised (`adaptiveRetries`, which the specification dropped in 2026-03).
    /// [`RetryReads::with_strategy`](crate::RetryReads::with_strategy) has the bucket told of the
    /// calls that work; a stack without that puts it into a throttle layer.
    #[must_use]
    pub fn adaptive_tokens(mut self, tokens: AdaptiveTokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    pub(crate) const fn tokens(&self) -> Option<&AdaptiveTokens> {
        self.tokens.as_ref()
    }

    /// Where the random shares come from; by default from the thread's generator.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Does it know overload errors?
    #[must_use]
    pub const fn backs_off(&self) -> bool {
        self.max_adaptive_retries.is_some()
    }

    /// The most retries of a call that stands like this; `None` is no limit but the deadline.
    fn most_retries(&self, view: &RetryView<'_>) -> Option<u32> {
        if let Some(max) = self.max_adaptive_retries {
            let earlier =
                || view.retries > 0 && view.context.info().count(MONGODB_SYSTEM_OVERLOADED) > 0;
            if is_overload(view.failure) || earlier() {
                return Some(max);
            }
        }
        let no_limit = self.until_deadline && view.context.limit().is_some();
        (!no_limit).then_some(1)
    }

    fn delay(&self, view: &RetryView<'_>) -> Duration {
        if !(self.backs_off() && is_overload(view.failure)) {
            return Duration::ZERO;
        }
        let base = view.failure.base_backoff().unwrap_or(BASE_BACKOFF);
        // The first retry is number 1, and its exponent 1. Nothing here overflows: the back-off
        // saturates.
        Backoff::exponential(base.saturating_mul(2), MAX_BACKOFF)
            .jitter(Jitter::Full)
            .randomness(self.randomness.clone())
            .delay(view.retries, None)
    }
}

fn is_overload(failure: &Failure) -> bool {
    failure.reason == MONGODB_SYSTEM_OVERLOADED
}

impl RetryStrategy for RetryableReads {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let tokens = self
            .tokens
            .as_ref()
            .filter(|_| self.backs_off() && is_overload(view.failure));
        if let Some(tokens) = tokens {
            // The records end with the attempt before this one.
            let info = view.context.info();
            let before = info.records().next_back().and_then(|r| r.failure);
            if before.is_some_and(|before| is_overload(&before)) {
                tokens.take_one();
            }
        }
        match self.most_retries(view) {
            Some(max) if view.retries >= max => Decision::Exhausted,
            _ if tokens.is_some_and(|tokens| !tokens.has_one()) => Decision::Stop,
            _ => Decision::After(self.delay(view)),
        }
    }

    fn max_attempts(&self) -> Option<u32> {
        // The bucket has to hear of the last attempt's failure too.
        if self.until_deadline || self.tokens.is_some() {
            return None;
        }
        let retries = self.max_adaptive_retries.unwrap_or(1).max(1);
        Some(retries.saturating_add(1))
    }

    fn on_deadline(&self) -> OnDeadline {
        if self.backs_off() {
            OnDeadline::GiveUp
        } else {
            OnDeadline::Cap
        }
    }

    fn holds(&self) -> bool {
        true
    }

    fn surface(&self, _held: &Failure, new: &Failure) -> Surface {
        // One that changed nothing: the first if all are like that, else the last that is not.
        if new.stage == Stage::Dispatch || new.no_effect {
            Surface::Held
        } else {
            Surface::New
        }
    }
}

#[cfg(test)]
mod tests;
