//! Where every random number of a run comes from: ChaCha8, seeded by the scenario.
//!
//! One stream draws the arrivals. Each call gets one word of it, and all that chance decides about
//! the call's attempts is expanded from that word: attempt 2 of call 7 takes the same time under
//! every policy, whatever the other calls do (common random numbers). Another stream draws the
//! jitter, which belongs to a policy.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of one seed.
pub(crate) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(stream);
    generator
}

/// Uniform in `[0, 1)`, with 53 bits.
pub(crate) fn unit(word: u64) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
    (word >> 11) as f64 * STEP
}

/// Uniform in `[0, 1)` from a stream.
pub(crate) fn roll(generator: &mut ChaCha8Rng) -> f64 {
    unit(generator.next_u64())
}

/// Uniform in `0..n`; `n` is not zero.
pub(crate) fn below(word: u64, n: usize) -> usize {
    // The bias of the multiplication is below 2^-40 for the largest list.
    ((u128::from(word) * n as u128) >> 64) as usize
}

/// Exponential with mean 1, from a word.
pub(crate) fn exponential(word: u64) -> f64 {
    -libm::log(1.0 - unit(word))
}

/// The words of one call or attempt, expanded from one word (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words(u64);

impl Words {
    /// The words for this purpose of what has this word.
    pub(crate) const fn of(word: u64, purpose: u64) -> Self {
        Self(word.wrapping_add(purpose.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.next())
    }
}
