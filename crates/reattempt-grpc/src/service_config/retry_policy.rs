//! A6's `retryPolicy`, as a strategy.

use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::config::{Json, Members, Place};
use reattempt::{Decision, OnDeadline, RetryStrategy, RetryView};

use crate::CodeSet;

use super::Options;
use super::values;

/// A6's `retryPolicy`: attempts, exponential back-off, retryable codes.
///
/// The n-th retry since the last pushback waits `initialBackoff · backoffMultiplier^(n-1)`, at most
/// `maxBackoff` (the first retry too), with jitter: uniform in `[0, delay)` by default.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    max_attempts: u32,
    backoff: Backoff,
    codes: CodeSet,
    on_deadline: OnDeadline,
}

impl RetryPolicy {
    /// A policy of `max_attempts` in total, with A6's full jitter.
    #[must_use]
    pub fn new(
        max_attempts: u32,
        initial_backoff: Duration,
        max_backoff: Duration,
        backoff_multiplier: f64,
        retryable_status_codes: CodeSet,
    ) -> Self {
        let backoff = Backoff::exponential(initial_backoff, max_backoff)
            .multiplier(backoff_multiplier)
            .jitter(Jitter::Full);
        Self {
            max_attempts: max_attempts.max(1),
            backoff,
            codes: retryable_status_codes,
            on_deadline: OnDeadline::Cap,
        }
    }

    /// Sets the jitter; `Jitter::Proportional(0.2)` is A6 since 2024.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.backoff = self.backoff.jitter(jitter);
        self
    }

    /// Sets the source of random numbers.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.backoff = self.backoff.randomness(randomness);
        self
    }

    /// Sets what to do with a delay that would pass the deadline; [`OnDeadline::Cap`] by default.
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }

    /// The codes that may be retried.
    #[must_use]
    pub const fn retryable_status_codes(&self) -> CodeSet {
        self.codes
    }

    /// The delay after this many retries (since the last pushback), with fresh jitter.
    #[must_use]
    pub fn delay_after(&self, retries: u32) -> Duration {
        self.backoff.delay(retries, None)
    }

    /// A6, Validation of retryPolicy. `throttled`: the config has `retryThrottling`.
    pub(super) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        throttled: bool,
        options: &Options,
    ) -> Option<Self> {
        let members = Members::of(
            place,
            json,
            &[
                "maxAttempts",
                "initialBackoff",
                "maxBackoff",
                "backoffMultiplier",
                "retryableStatusCodes",
            ],
        )?;
        let attempts = max_attempts(place, &members, options.max_attempts_limit);
        let long = |place: &mut Place<'_>, json| values::duration(place, json, true);
        let initial = members.required(place, "initialBackoff", "a duration", long);
        let max = members.required(place, "maxBackoff", "a duration", long);
        let multiplier = members.required(place, "backoffMultiplier", "a number", values::factor);
        let codes = members.required(
            place,
            "retryableStatusCodes",
            "an array of status codes",
            |place, json| {
                if json.items().is_some_and(|items| items.is_empty()) {
                    return place.refuse("must name at least one status code");
                }
                values::codes(place, json)
            },
        );
        if let Some(attempts) = attempts.filter(|attempts| *attempts > MANY_ATTEMPTS && !throttled)
        {
            place.advise(format!(
                "can amplify load: a server that fails gets up to {attempts} times its calls, and no retryThrottling holds them back"
            ));
        }
        if max.zip(initial).is_some_and(|(max, initial)| max < initial) {
            let mut place = place.field("maxBackoff");
            place.advise("is below initialBackoff, which it caps too");
        }
        let policy = Self::new(attempts?, initial?, max?, multiplier?, codes?);
        Some(
            policy
                .jitter(options.jitter)
                .randomness(options.randomness.clone())
                .on_deadline(options.on_deadline),
        )
    }
}

/// Above this number of attempts, a config without throttling causes a warning.
const MANY_ATTEMPTS: u32 = 3;

/// An integer above 1; a value above the client's limit acts as the limit.
pub(super) fn max_attempts(
    place: &mut Place<'_>,
    members: &Members<'_>,
    limit: u32,
) -> Option<u32> {
    let attempts = members.required(place, "maxAttempts", "an integer", |place, json| {
        values::integer(place, json, "an integer greater than 1", 2, u64::MAX)
    })?;
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    if attempts > limit {
        let mut place = place.field("maxAttempts");
        place.advise(format!("acts as {limit}, the most attempts of this client"));
    }
    Some(attempts.min(limit))
}

impl RetryStrategy for RetryPolicy {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.has_used_up(self.max_attempts) {
            return Decision::Exhausted;
        }
        Decision::After(
            self.backoff
                .delay(view.retries_since_pushback, view.previous_delay),
        )
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(self.max_attempts)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        Some(self.on_deadline)
    }
}
