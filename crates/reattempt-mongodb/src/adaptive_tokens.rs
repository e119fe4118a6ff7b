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
/// The specification took the token before the retry and returned it afterwards; after overload
/// errors the totals are the same, except while retries are in flight. A retry after another error
/// returned a whole token too, which this does not: it fills more slowly while connections fail.
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
        // Full, as usual: nothing to write.
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
        if outcome == Settled::Success {
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

#[cfg(test)]
mod tests {
    use reattempt::{Stage, reason};

    use super::*;

    fn succeeds(tokens: &AdaptiveTokens, times: u32) {
        (0..times).for_each(|_| tokens.settled(Settled::Success));
    }

    #[test]
    fn it_starts_full_with_a_thousand_tokens() {
        assert_eq!(AdaptiveTokens::new().milli_tokens(), Some(1_000_000));
        assert_eq!(AdaptiveTokens::default().milli_tokens(), Some(1_000_000));
        let most = AdaptiveTokens::with_capacity(u32::MAX);
        assert_eq!(most.milli_tokens(), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn a_success_gives_back_a_tenth_up_to_the_capacity() {
        let tokens = AdaptiveTokens::with_capacity(2);
        succeeds(&tokens, 1);
        assert_eq!(tokens.milli_tokens(), Some(2000), "it is full");
        tokens.take_one();
        succeeds(&tokens, 9);
        assert_eq!(tokens.milli_tokens(), Some(1900));
        succeeds(&tokens, 2);
        assert_eq!(tokens.milli_tokens(), Some(2000));
    }

    #[test]
    fn there_is_one_while_a_whole_token_is_left() {
        let tokens = AdaptiveTokens::with_capacity(1);
        assert!(tokens.has_one());
        tokens.take_one();
        tokens.take_one();
        assert_eq!(tokens.milli_tokens(), Some(0), "never below");
        succeeds(&tokens, 9);
        assert!(!tokens.has_one());
        succeeds(&tokens, 1);
        assert!(tokens.has_one());
    }

    /// Only a retry that meets an overloaded server again takes one.
    #[test]
    fn as_a_throttle_it_refuses_nothing_and_failures_cost_nothing() {
        let tokens = AdaptiveTokens::with_capacity(1);
        let failure = Failure::new(reason::UNKNOWN, Stage::Response);
        tokens.settled(Settled::Failure(&failure));
        assert_eq!(tokens.milli_tokens(), Some(1000));
        tokens.take_one();
        assert!(tokens.allows(Some(&failure)) && tokens.spend(Some(&failure)));
    }
}
