//! How a back-off is built.

use std::time::Duration;

use super::{Backoff, Jitter, Randomness, Shape};

impl Backoff {
    const fn of(shape: Shape) -> Self {
        Self {
            shape,
            jitter: Jitter::None,
            randomness: Randomness::Thread,
        }
    }

    /// Always the same delay.
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Self::of(Shape::Constant(delay))
    }

    /// `step`, `2 · step`, `3 · step` … up to `max`.
    #[must_use]
    pub const fn linear(step: Duration, max: Duration) -> Self {
        Self::of(Shape::Linear { step, max })
    }

    /// `initial`, doubled with each retry, up to `max`; with [`Jitter::Full`], so that the delay is
    /// uniform from zero to that.
    #[must_use]
    pub const fn exponential(initial: Duration, max: Duration) -> Self {
        Self::of(Shape::Exponential {
            initial,
            multiplier: 2.0,
            max,
        })
        .jitter(Jitter::Full)
    }

    /// 1, 10, 50, 100, 500, then 1000 ms (RFC 0049, Controlled Backoff for Always Retry).
    #[must_use]
    pub const fn controlled() -> Self {
        Self::of(Shape::Controlled)
    }

    /// A custom calculation from the retries already made (0 before the first retry), up to `max`.
    ///
    /// A calculation that needs more input or keeps state is a
    /// [`RetryStrategy`](crate::RetryStrategy).
    ///
    /// ```
    /// use reattempt::backoff::Backoff;
    /// use reattempt::strategy::BestEffort;
    /// use std::time::Duration;
    ///
    /// let squares = Backoff::calculated(
    ///     |n| Duration::from_millis(u64::from(n).pow(2)),
    ///     Duration::from_secs(1),
    /// );
    /// assert_eq!(squares.delay(3, None), Duration::from_millis(9));
    /// assert_eq!(squares.delay(u32::MAX, None), Duration::from_secs(1));
    /// let strategy = BestEffort::with_backoff(squares);
    /// ```
    #[must_use]
    pub const fn calculated(delay: fn(u32) -> Duration, max: Duration) -> Self {
        Self::of(Shape::Calculated { delay, max })
    }

    /// The factor of an exponential back-off; 2 by default. Below 1 the delays shrink; a negative
    /// factor or NaN counts as 0. No effect on other shapes.
    #[must_use]
    pub fn multiplier(mut self, factor: f64) -> Self {
        if let Shape::Exponential { multiplier, .. } = &mut self.shape {
            *multiplier = factor.max(0.0);
        }
        self
    }

    /// Sets the jitter: full by default for an exponential back-off, none for other shapes.
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the source of random numbers; by default the thread's generator.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }
}
