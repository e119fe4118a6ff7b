//! Jitter: spreads delays so that clients do not retry at the same time.

use std::time::Duration;

use super::{Backoff, CONTROLLED_MS, Randomness, Shape};

/// How a delay is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// The exact delay.
    #[default]
    None,
    /// Uniform in `[0, delay)` (A6, Exponential Backoff): the default of
    /// [`Backoff::exponential`](super::Backoff::exponential).
    Full,
    /// Uniform in `[delay · (1 − p), delay · (1 + p)]`; A6 currently specifies `Proportional(0.2)`.
    /// May exceed the back-off's maximum by that share. `p` is clamped to `[0, 1]`.
    Proportional(f64),
    /// Uniform in `[delay · (1 − p), delay]`: never longer than the back-off. `p` is clamped to
    /// `[0, 1]`.
    Shortened(f64),
    /// Uniform between the first delay and three times the previous one, up to the maximum. If
    /// both are zero, up to the delay of this retry.
    Decorrelated,
}

impl Jitter {
    pub(super) fn apply(
        self,
        plain: Duration,
        first: Duration,
        max: Duration,
        previous: Option<Duration>,
        randomness: &Randomness,
    ) -> Duration {
        match self {
            Self::None => plain,
            Self::Full => share(plain, randomness.roll()),
            Self::Proportional(p) => {
                let p = clamped(p);
                share(plain, 1.0 - p + 2.0 * p * randomness.roll())
            }
            Self::Shortened(p) => share(plain, 1.0 - clamped(p) * randomness.roll()),
            Self::Decorrelated => {
                let top = previous.unwrap_or(first).saturating_mul(3).max(first);
                // Three times nothing would be nothing for all retries.
                let top = if top.is_zero() { plain } else { top };
                let width = top.saturating_sub(first);
                first
                    .saturating_add(share(width, randomness.roll()))
                    .min(max)
            }
        }
    }
}

impl Backoff {
    /// The longest delay before jitter.
    pub(super) fn max(&self) -> Duration {
        match self.shape {
            Shape::Constant(delay) => delay,
            Shape::Linear { max, .. }
            | Shape::Exponential { max, .. }
            | Shape::Calculated { max, .. } => max,
            Shape::Controlled => Duration::from_millis(CONTROLLED_MS[CONTROLLED_MS.len() - 1]),
        }
    }
}

/// Within `[0, 1]`; NaN counts as 0.
fn clamped(p: f64) -> f64 {
    if p > 0.0 { p.min(1.0) } else { 0.0 }
}

/// `delay · factor`, for a factor within `[0, 2]`.
fn share(delay: Duration, factor: f64) -> Duration {
    // NaN and less than nothing come from a generator of the caller's own.
    let factor = factor.max(0.0);
    Duration::try_from_secs_f64(delay.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}
