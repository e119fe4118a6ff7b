//! How long to wait before the next attempt.

mod builders;
mod jitter;
mod randomness;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use jitter::Jitter;
pub use randomness::Randomness;

/// The steps of RFC 0049's controlled back-off, in milliseconds; the last one repeats.
const CONTROLLED_MS: [u64; 6] = [1, 10, 50, 100, 500, 1000];

/// How the delay without jitter grows with the retries already made.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Constant(Duration),
    Linear {
        step: Duration,
        max: Duration,
    },
    Exponential {
        initial: Duration,
        multiplier: f64,
        max: Duration,
    },
    Controlled,
    Calculated {
        delay: fn(u32) -> Duration,
        max: Duration,
    },
}

/// A back-off: the delay for a number of retries already made, with jitter.
///
/// An exponential back-off has full jitter unless [`Backoff::jitter`] sets another; the other
/// shapes have none. Without jitter, clients that failed together retry together at every step. Of
/// the variants that Marc Brooker compares in "Exponential Backoff And Jitter" (AWS Architecture
/// Blog, 2015) full jitter needs the fewest calls.
///
/// All arithmetic saturates: no number of retries, multiplier or duration overflows or panics.
/// Randomness differs for every call by default; [`Backoff::randomness`] injects another source.
///
/// ```
/// use reattempt::backoff::{Backoff, Jitter};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let backoff = Backoff::exponential(ms(1), ms(500));
/// assert!(backoff.delay(3, None) <= ms(8));
///
/// let exact = backoff.jitter(Jitter::None);
/// assert_eq!(exact.delay(0, None), ms(1));
/// assert_eq!(exact.delay(3, None), ms(8));
/// assert_eq!(exact.delay(50, None), ms(500));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    shape: Shape,
    jitter: Jitter,
    randomness: Randomness,
}

impl Backoff {
    /// The delay without jitter after `retries` retries already made.
    #[must_use]
    pub fn plain(&self, retries: u32) -> Duration {
        match self.shape {
            Shape::Constant(delay) => delay,
            Shape::Linear { step, max } => step.saturating_mul(retries.saturating_add(1)).min(max),
            Shape::Exponential {
                initial,
                multiplier,
                max,
            } => scaled(initial, power(multiplier, retries), max),
            Shape::Controlled => {
                let step = (retries as usize).min(CONTROLLED_MS.len() - 1);
                Duration::from_millis(CONTROLLED_MS[step])
            }
            Shape::Calculated { delay, max } => delay(retries).min(max),
        }
    }

    /// The delay to wait after `retries` retries already made; `previous` is the delay before the
    /// last attempt, used only by [`Jitter::Decorrelated`].
    #[must_use]
    pub fn delay(&self, retries: u32, previous: Option<Duration>) -> Duration {
        let plain = self.plain(retries);
        match self.jitter {
            Jitter::None => plain,
            jitter => jitter.apply(plain, self.plain(0), self.max(), previous, &self.randomness),
        }
    }
}

/// `base` to this power by multiplication alone, so that the result is the same on every platform.
fn power(base: f64, mut exponent: u32) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

/// `delay · factor`, at most `max`; accepts any factor, also infinity and NaN.
///
/// Exact if the factor is a whole number (the usual doubling), so that published delays match to
/// the nanosecond.
fn scaled(delay: Duration, factor: f64, max: Duration) -> Duration {
    // Zero stays zero, also if the factor has become infinite.
    if delay.is_zero() {
        return Duration::ZERO;
    }
    if delay >= max && factor >= 1.0 {
        return max;
    }
    if factor >= 1.0 && factor <= f64::from(u32::MAX) && factor.fract() == 0.0 {
        // The cast is exact: the factor is a whole number within u32.
        return delay.saturating_mul(factor as u32).min(max);
    }
    Duration::try_from_secs_f64(delay.as_secs_f64() * factor).map_or(max, |d| d.min(max))
}
