//! A6's token bucket, exact to the thousandth of a token.

#[cfg(all(test, reattempt_loom))]
mod models;

use super::{RetryThrottle, Settled};
use crate::Failure;
use crate::sync::{AtomicU64, Ordering};

const MILLI: u32 = 1000;
/// A6: `maxTokens` is in (0, 1000].
const MOST_TOKENS: u32 = 1000;

/// A configuration that A6 does not allow for a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTokenBucket {
    /// `maxTokens` outside of 1..=1000.
    #[error("maxTokens must be a whole number from 1 to 1000, got {0}")]
    MaxTokens(u32),
    /// `tokenRatio` is below a thousandth of a token.
    #[error("tokenRatio must be at least 0.001, got {0} thousandths")]
    TokenRatio(u32),
}

/// A6's retry throttle: one token less for each failure, `tokenRatio` more for each success, and no
/// further attempt while the count is at or below half of `maxTokens`.
///
/// Counts whole thousandths of a token, so that no rounding errors accumulate. One atomic word on
/// its own cache line holds fill, maximum and ratio, so that counting never mixes two
/// configurations.
///
/// ```
/// use reattempt::throttle::{RetryThrottle, TokenBucket};
///
/// let bucket = TokenBucket::new(10, 100)?; // maxTokens 10, tokenRatio 0.1
/// assert!(bucket.allows(None));
/// assert_eq!(bucket.milli_tokens(), Some(10_000));
/// # Ok::<(), reattempt::throttle::InvalidTokenBucket>(())
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct TokenBucket {
    /// Fill, maximum and ratio in one word, so that they change together, all in milli-tokens.
    word: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    fill: u32,
    max: u32,
    ratio: u32,
}

/// Fill and maximum are at most 1 000 000 milli-tokens: 20 bits each. The ratio gets the other 24.
/// It is clamped to the maximum, since a larger one fills the bucket at once as well.
const FILL_BITS: u32 = 20;

impl Word {
    fn unpack(word: u64) -> Self {
        let mask = (1 << FILL_BITS) - 1;
        Self {
            fill: (word & mask) as u32,
            max: ((word >> FILL_BITS) & mask) as u32,
            ratio: (word >> (2 * FILL_BITS)) as u32,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.fill)
            | (u64::from(self.max) << FILL_BITS)
            | (u64::from(self.ratio) << (2 * FILL_BITS))
    }

    fn checked(max_tokens: u32, milli_ratio: u32) -> Result<Self, InvalidTokenBucket> {
        if max_tokens == 0 || max_tokens > MOST_TOKENS {
            return Err(InvalidTokenBucket::MaxTokens(max_tokens));
        }
        if milli_ratio == 0 {
            return Err(InvalidTokenBucket::TokenRatio(milli_ratio));
        }
        let max = max_tokens * MILLI;
        Ok(Self {
            fill: max,
            max,
            ratio: milli_ratio.min(max),
        })
    }
}

/// 100 tokens and 0.1 for a success: 50 failures in a row before retries stop.
impl Default for TokenBucket {
    fn default() -> Self {
        let word = Word {
            fill: 100 * MILLI,
            max: 100 * MILLI,
            ratio: MILLI / 10,
        };
        Self {
            word: AtomicU64::new(word.pack()),
        }
    }
}

impl TokenBucket {
    /// A full bucket of `max_tokens` (1 to 1000) that gains `milli_ratio` thousandths of a token
    /// with each success (A6's `tokenRatio` 0.1 is 100).
    pub fn new(max_tokens: u32, milli_ratio: u32) -> Result<Self, InvalidTokenBucket> {
        Ok(Self {
            word: AtomicU64::new(Word::checked(max_tokens, milli_ratio)?.pack()),
        })
    }

    /// Changes the configuration and keeps the fill fraction.
    pub fn reconfigure(&self, max_tokens: u32, milli_ratio: u32) -> Result<(), InvalidTokenBucket> {
        let new = Word::checked(max_tokens, milli_ratio)?;
        self.update(|old| {
            let fill = u64::from(old.fill) * u64::from(new.max) / u64::from(old.max);
            Word {
                fill: fill as u32,
                ..new
            }
        });
        Ok(())
    }

    fn update(&self, change: impl Fn(Word) -> Word) {
        // Relaxed: the word guards no other memory.
        let _ = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let next = change(Word::unpack(word)).pack();
                (next != word).then_some(next)
            });
    }

    fn load(&self) -> Word {
        Word::unpack(self.word.load(Ordering::Relaxed))
    }
}

impl RetryThrottle for TokenBucket {
    fn settled(&self, outcome: Settled<'_>) {
        match outcome {
            Settled::Success => {
                let word = self.load();
                if word.fill == word.max {
                    // Usually the bucket is full and nothing is written.
                    return;
                }
                self.update(|w| Word {
                    fill: w.fill.saturating_add(w.ratio).min(w.max),
                    ..w
                });
            }
            Settled::Failure(_) => {
                self.update(|w| Word {
                    fill: w.fill.saturating_sub(MILLI),
                    ..w
                });
            }
        }
    }

    fn allows(&self, _: Option<&Failure>) -> bool {
        let word = self.load();
        // Strictly above half. Doubled instead of halved, so that an odd maximum stays exact.
        u64::from(word.fill) * 2 > u64::from(word.max)
    }

    fn milli_tokens(&self) -> Option<u64> {
        Some(u64::from(self.load().fill))
    }

    fn milli_headroom(&self) -> Option<u64> {
        let word = self.load();
        Some(u64::from(word.fill.saturating_sub(word.max / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use crate::failure::reason::UNKNOWN;

    const FAILURE: Failure = Failure::new(UNKNOWN, Stage::Response);

    fn fail(bucket: &TokenBucket, times: u32) {
        (0..times).for_each(|_| bucket.settled(Settled::Failure(&FAILURE)));
    }

    /// R20
    #[test]
    fn it_permits_strictly_above_half() {
        let bucket = TokenBucket::new(10, 100).unwrap();
        fail(&bucket, 4);
        assert!(bucket.allows(None));
        fail(&bucket, 1);
        assert!(!bucket.allows(None), "exactly half is not enough");
        bucket.settled(Settled::Success);
        assert!(bucket.allows(None));
    }

    /// R20
    #[test]
    fn half_of_an_odd_maximum_is_exact() {
        let bucket = TokenBucket::new(1, 1).unwrap();
        assert!(bucket.allows(None));
        fail(&bucket, 1);
        for _ in 0..500 {
            bucket.settled(Settled::Success);
        }
        assert_eq!(bucket.milli_tokens(), Some(500));
        assert!(!bucket.allows(None));
        bucket.settled(Settled::Success);
        assert!(bucket.allows(None));
    }

    /// R21
    #[test]
    fn it_never_leaves_its_bounds() {
        let bucket = TokenBucket::new(2, 5_000_000).unwrap();
        fail(&bucket, 9);
        assert_eq!(bucket.milli_tokens(), Some(0));
        bucket.settled(Settled::Success);
        assert_eq!(bucket.milli_tokens(), Some(2000));
    }

    /// R8
    #[test]
    fn a_thousandth_adds_up_without_rounding() {
        let bucket = TokenBucket::new(1000, 546).unwrap();
        fail(&bucket, 1000);
        (0..1000).for_each(|_| bucket.settled(Settled::Success));
        assert_eq!(bucket.milli_tokens(), Some(546_000));
    }

    /// R25
    #[test]
    fn a_new_configuration_keeps_the_fill_fraction() {
        let bucket = TokenBucket::new(4, 100).unwrap();
        fail(&bucket, 1);
        bucket.reconfigure(10, 200).unwrap();
        assert_eq!(bucket.milli_tokens(), Some(7500));
        bucket.settled(Settled::Success);
        assert_eq!(bucket.milli_tokens(), Some(7700));
    }

    /// R7 R8
    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(
            TokenBucket::new(0, 1).unwrap_err(),
            InvalidTokenBucket::MaxTokens(0)
        );
        assert_eq!(
            TokenBucket::new(1001, 1).unwrap_err(),
            InvalidTokenBucket::MaxTokens(1001)
        );
        assert_eq!(
            TokenBucket::new(1, 0).unwrap_err(),
            InvalidTokenBucket::TokenRatio(0)
        );
    }
}
