//! The retry specification of an entry (RFC 0013, Retry Intervals).

use std::time::Duration;

/// How the delays of a retry specification grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecStrategy {
    /// Always the interval.
    Constant,
    /// The interval times the number of retries made.
    Linear,
    /// The interval, in milliseconds, to the power of the number of retries made.
    Exponential,
}

/// A retry specification. All durations are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySpec {
    pub(super) strategy: SpecStrategy,
    pub(super) after_ms: u64,
    pub(super) interval_ms: u64,
    pub(super) ceil_ms: Option<u64>,
    pub(super) max_duration_ms: Option<u64>,
}

impl RetrySpec {
    /// How the delays grow.
    #[must_use]
    pub const fn strategy(&self) -> SpecStrategy {
        self.strategy
    }

    /// The delay before the first retry.
    #[must_use]
    pub const fn after(&self) -> Duration {
        Duration::from_millis(self.after_ms)
    }

    /// The base of the delays before all further retries.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// The maximum delay; `None` if absent or 0. Applies to linear and exponential delays, not to
    /// `after` and constant ones.
    #[must_use]
    pub fn ceil(&self) -> Option<Duration> {
        self.ceil_ms.map(Duration::from_millis)
    }

    /// The time after the first failure of a series with this status within which the last retry
    /// may be sent; `None` if absent or 0, then only the call's deadline limits it. Includes
    /// `after`.
    #[must_use]
    pub fn max_duration(&self) -> Option<Duration> {
        self.max_duration_ms.map(Duration::from_millis)
    }

    /// The delay after `retries` retries for this status: `after`, then the strategy's formula with
    /// 1, 2, 3 …. Saturates.
    #[must_use]
    pub fn delay(&self, retries: u32) -> Duration {
        if retries == 0 {
            return self.after();
        }
        let ceil = self.ceil_ms.unwrap_or(u64::MAX);
        let ms = match self.strategy {
            SpecStrategy::Constant => self.interval_ms,
            SpecStrategy::Linear => self.interval_ms.saturating_mul(retries.into()).min(ceil),
            SpecStrategy::Exponential => self.interval_ms.saturating_pow(retries).min(ceil),
        };
        Duration::from_millis(ms)
    }
}
