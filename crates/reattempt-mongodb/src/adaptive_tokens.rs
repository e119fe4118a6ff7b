//! The token bucket over overload retries that the specification defined until March 2026.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::Failure;
use reattempt::throttle::{RetryThrottle, Settled};

const MILLI: u32 = 1000;

/// What a retry needs, and costs if it meets an overloaded server again: one token.
const RETRY: u32 = MILLI;

/// What a successful call returns to the bucket (RETRY_TOKEN_RETURN_RATE).
const SUCCESS: u32 = MILLI / 10;

/// `adaptiveRetries`: bounds the overload retries of all calls of a client together. One per
/// client; clones share it.
///
/// It starts full, with 1000 tokens. A retry after an overload error needs one token, and consumes
/// it if it fails with an overload error itself; each successful call returns a tenth of a token.
/// Other errors neither need nor consume tokens. Off by default, and removed from the specification
/// on 2026-03-30; enable it with
/// [`RetryableReads::adaptive_tokens`](crate::RetryableReads::adaptive_tokens).
///
/// The specification took the token before the retry and returned it afterwards; the totals are the
/// same, except while retries are in flight.
#[derive(Clone, Debug)]
pub struct AdaptiveTokens(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    fill: AtomicU32,
    max: u32,
}

impl AdaptiveTokens {
    /// The specification's bucket of 1000 tokens, full.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(1000)
    }

    /// A full bucket of this many tokens, at most 4 million.
    #[must_use]
    pub fn with_capacity(tokens: u32) -> Self {
        let max = tokens.saturating_mul(MILLI);
        Self(Arc::new(Bucket {
            fill: AtomicU32::new(max),
            max,
        }))
    }

    pub(crate) fn has_one(&self) -> bool {
        self.fill() >= RETRY
    }

    pub(crate) fn take_one(&self) {
        self.change(|fill| fill.saturating_sub(RETRY));
    }

    fn fill(&self) -> u32 {
        // Relaxed: the word guards no other memory.
        self.0.fill.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let changed = |fill| {
            let next = change(fill).min(self.0.max);
            (next != fill).then_some(next)
        };
        let word = &self.0.fill;
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl Default for AdaptiveTokens {
    fn default() -> Self {
        Self::new()
    }
}

/// As a throttle it only counts successes: the strategy decides which retries need a token.
impl RetryThrottle for AdaptiveTokens {
    fn settled(&self, outcome: Settled<'_>) {
        if outcome == Settled::Success && self.fill() < self.0.max {
            self.change(|fill| fill.saturating_add(SUCCESS));
        }
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }

    fn milli_tokens(&self) -> Option<u64> {
        Some(self.fill().into())
    }
}
