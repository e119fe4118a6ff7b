//! The delay that most attempts do not exceed.

#[cfg(test)]
mod tests;

use std::sync::TryLockError;
use std::time::Duration;

use super::current::CurrentDelay;
use super::survival::{Past, Survival};
use super::{EndedAttempt, HedgeDelay, HedgeView};
use crate::sync::Mutex;

/// A percentile that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a percentile must be from 1 to 99.9, got {0}")]
pub struct InvalidPercentile(f64);

/// The delay that a percentage of the route's first attempts does not exceed, learned from them.
///
/// Nothing bounds the load but the percentile itself, and when everything becomes slow every call
/// is hedged until that is learned: put a [`HedgeBudget`](crate::HedgeBudget) beside it, or use
/// [`ExtraLoad`](super::ExtraLoad). Until it has seen 64 attempts the delay is the maximum, or
/// "not now" without one.
#[derive(Debug)]
pub struct Percentile {
    beyond: f32,
    min: Duration,
    max: Duration,
    times: Survival,
    /// Never waited for: one that finds it taken goes on without.
    past: Mutex<Past>,
    delay: CurrentDelay,
}

impl Percentile {
    /// Of a percentile from 1 to 99.9, without a minimum and a maximum.
    ///
    /// # Errors
    /// Any other number.
    pub fn of(percentile: f64) -> Result<Self, InvalidPercentile> {
        if !(1.0..=99.9).contains(&percentile) {
            return Err(InvalidPercentile(percentile));
        }
        Ok(Self {
            beyond: (1.0 - percentile / 100.0) as f32,
            min: Duration::ZERO,
            max: Duration::MAX,
            times: Survival::new(),
            past: Mutex::new(Past::new()),
            delay: CurrentDelay::unknown(),
        })
    }

    /// Never less than this.
    #[must_use]
    pub const fn min(mut self, min: Duration) -> Self {
        self.min = min;
        self
    }

    /// Never more than this. The minimum wins over it.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, counted: u64) {
        if counted < 64 || !Survival::is_due(counted) {
            return;
        }
        let mut past = match self.past.try_lock() {
            Ok(past) => past,
            Err(TryLockError::Poisoned(past)) => past.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let (curve, _) = self.times.estimate(&mut past);
        self.delay.set(curve.exceeded_by(self.beyond) as u64);
    }
}

impl HedgeDelay for Percentile {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        let delay = match self.delay.get() {
            None if self.max == Duration::MAX => return None,
            None => self.max,
            Some(delay) => delay,
        };
        Some(delay.min(self.max).max(self.min))
    }

    fn learns(&self) -> bool {
        true
    }

    fn ended(&self, attempt: &EndedAttempt) {
        if attempt.number != 1 {
            return;
        }
        let counted = self.times.count(attempt.nanos, attempt.end.is_own());
        if Survival::is_mark(counted) {
            self.learn(counted);
        }
    }
}
