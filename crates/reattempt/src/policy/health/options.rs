//! What users set: when a backend is ejected, and how it returns.

use std::time::Duration;

use crate::policy::backoff::Randomness;

/// When a backend is ejected for its results, for how long, and how it returns.
///
/// Values out of range are brought into it: a percentage is at most 100, an interval at least a
/// millisecond.
#[derive(Clone, Debug)]
pub struct HealthPolicy {
    pub(super) interval: Duration,
    pub(super) base_ejection_time: Duration,
    pub(super) max_ejection_time: Option<Duration>,
    pub(super) max_ejection_percent: u32,
    pub(super) success_rate: Option<SuccessRateEjection>,
    pub(super) failure_percentage: Option<FailurePercentageEjection>,
    pub(super) consecutive_failures: Option<u32>,
    pub(super) slow_start: Duration,
    pub(super) probe_interval: Option<Duration>,
    pub(super) randomness: Randomness,
}

/// Ejects backends whose success rate is below those of the others (A50, Success Rate Algorithm).
///
/// The default is A50's: factor 1.9, no smallest gap, always enforced, five backends with 100
/// attempts each in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuccessRateEjection {
    /// How many standard deviations below the mean, in thousandths.
    pub stdev_factor: u32,
    /// How many percentage points below the mean at least. A50 has no such limit: where nearly all
    /// attempts succeed the deviation is so small that one failure makes an outlier.
    pub minimum_gap: u32,
    /// The chance in percent that an outlier is ejected.
    pub enforcement_percentage: u32,
    /// The number of backends with enough attempts that the comparison needs.
    pub minimum_hosts: u32,
    /// Attempts of one interval that a backend needs to be compared.
    pub request_volume: u32,
}

impl Default for SuccessRateEjection {
    fn default() -> Self {
        Self {
            stdev_factor: 1900,
            minimum_gap: 0,
            enforcement_percentage: 100,
            minimum_hosts: 5,
            request_volume: 100,
        }
    }
}

/// Ejects backends of which more than this share of attempts fails (A50, Failure Percentage
/// Algorithm).
///
/// The default is A50's: 85 percent, always enforced, five backends with 50 attempts each in one
/// interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePercentageEjection {
    /// The percentage of failed attempts above which a backend is ejected.
    pub threshold: u32,
    /// The chance in percent that it is ejected then.
    pub enforcement_percentage: u32,
    /// The number of backends with enough attempts without which none is ejected.
    pub minimum_hosts: u32,
    /// Attempts of one interval that a backend needs to be judged.
    pub request_volume: u32,
}

impl Default for FailurePercentageEjection {
    fn default() -> Self {
        Self {
            threshold: 85,
            enforcement_percentage: 100,
            minimum_hosts: 5,
            request_volume: 50,
        }
    }
}

impl HealthPolicy {
    /// For a few backends that answer many calls: ejected after five failures in a row, or if more
    /// than half of at least 20 attempts of a second fail, or as a statistical outlier of five that
    /// is ten percentage points below the mean; for four seconds, however often; a further one
    /// while less than a third is (one of three, two of four). Hedges probe an ejected one each
    /// second, and one that returns gets its full share after four seconds.
    ///
    /// The times are short, because a backend that returns too early costs one attempt, and one
    /// that returns late leaves its load to the others: ten seconds after its fault is over it has
    /// its full share.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            interval: Duration::from_secs(1),
            base_ejection_time: Duration::from_secs(4),
            max_ejection_time: Some(Duration::from_secs(4)),
            max_ejection_percent: 33,
            success_rate: Some(SuccessRateEjection {
                minimum_gap: 10,
                ..SuccessRateEjection::default()
            }),
            failure_percentage: Some(FailurePercentageEjection {
                threshold: 50,
                minimum_hosts: 1,
                request_volume: 20,
                ..FailurePercentageEjection::default()
            }),
            consecutive_failures: Some(5),
            slow_start: Duration::from_secs(4),
            probe_interval: Some(Duration::from_secs(1)),
            randomness: Randomness::Thread,
        }
    }

    /// gRPC's outlier detection with its defaults (A50, LB Policy Config): neither algorithm is on
    /// until it is set, and nothing of what A50 does not have.
    #[must_use]
    pub fn a50() -> Self {
        Self {
            interval: Duration::from_secs(10),
            base_ejection_time: Duration::from_secs(30),
            max_ejection_time: None,
            max_ejection_percent: 10,
            success_rate: None,
            failure_percentage: None,
            consecutive_failures: None,
            slow_start: Duration::ZERO,
            probe_interval: None,
            randomness: Randomness::Thread,
        }
    }

    /// Sets the time between two sweeps, which look at all backends: A50's `interval`.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets for how long a backend is ejected, times the number of its recent ejections: A50's
    /// `base_ejection_time`.
    #[must_use]
    pub const fn base_ejection_time(mut self, base: Duration) -> Self {
        self.base_ejection_time = base;
        self
    }

    /// Sets for how long it is ejected at most: A50's `max_ejection_time`, by default 300 seconds.
    /// The base counts if it is longer.
    #[must_use]
    pub const fn max_ejection_time(mut self, max: Duration) -> Self {
        self.max_ejection_time = Some(max);
        self
    }

    /// Sets how many of the backends may be ejected at one time, in percent: A50's
    /// `max_ejection_percent`. A further one is ejected while fewer are, so 10 percent of three is
    /// one; 0 ejects none. A pushback keeps attempts from one backend, and from further ones
    /// within the same limit, together with those that are ejected.
    #[must_use]
    pub fn max_ejection_percent(mut self, percent: u32) -> Self {
        self.max_ejection_percent = percent.min(100);
        self
    }

    /// Sets ejection by success rate, or switches it off.
    #[must_use]
    pub fn success_rate(mut self, by: impl Into<Option<SuccessRateEjection>>) -> Self {
        self.success_rate = by.into();
        self
    }

    /// Sets ejection by the share of failures, or switches it off.
    #[must_use]
    pub fn failure_percentage(mut self, by: impl Into<Option<FailurePercentageEjection>>) -> Self {
        self.failure_percentage = by.into();
        self
    }

    /// Ejects a backend at once after this many failures without an answer between them, or
    /// switches that off. Of attempts that were lost in flight
    /// ([`Outcome::Lost`](super::Outcome::Lost)) within 20 ms, one counts, so that a lost
    /// connection is one failure. An attempt that was dropped unanswered
    /// is a failure, here and in the shares, if it lasted longer than four times what an answer
    /// usually takes (before the first answer of all: longer than the interval), at its deadline if
    /// it lasted longer than usual. A backend that has succeeded with none of its attempts for an
    /// interval (and for as long as an answer usually takes) fails with any that its deadline ends
    /// after an eighth of that time; after ten intervals (and four times that time) also with one
    /// that was dropped before, if it lasted longer than usual. A pause of ten intervals without
    /// attempts begins the time anew.
    ///
    /// While it is on, a backend that returns when its time is over is ejected again by its first
    /// failure.
    #[must_use]
    pub fn consecutive_failures(mut self, failures: impl Into<Option<u32>>) -> Self {
        self.consecutive_failures = failures.into().map(|failures| failures.max(1));
        self
    }

    /// Sets how long a backend that returns or joins takes to get its full share; it begins with a
    /// tenth.
    #[must_use]
    pub const fn slow_start(mut self, slow_start: Duration) -> Self {
        self.slow_start = slow_start;
        self
    }

    /// Sets how often a hedge may be sent to an ejected backend, to find out whether it is back, or
    /// switches that off. Another attempt of the call is in flight then, what its backend was last
    /// sent did not fail, and the policy has a further attempt for the call: no caller waits for a
    /// probe while the throttle allows that one. A policy of two attempts sends no probes.
    #[must_use]
    pub fn probe_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.probe_interval = interval.into();
        self
    }

    /// Sets the source of random numbers. A function of your own is called inside the lock of the
    /// health: it must not block, nor send by what has this policy.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// For how long a backend is ejected for the `times`-th time in a row.
    pub(super) fn ejection_time(&self, times: u32) -> Duration {
        let base = self.base_ejection_time;
        let max = self.max_ejection_time.unwrap_or(Duration::from_secs(300));
        base.saturating_mul(times).min(base.max(max))
    }

    /// With how many failures in a row a backend begins whose next failure ejects it.
    pub(super) fn failures_in_doubt(&self) -> u32 {
        self.consecutive_failures.unwrap_or(1) - 1
    }

    /// Whether one more of `all` may be ejected while `ejected` are.
    pub(super) const fn may_eject(&self, ejected: usize, all: usize) -> bool {
        (ejected as u64).saturating_mul(100)
            < (all as u64).saturating_mul(self.max_ejection_percent as u64)
    }
}

/// The source of random numbers is not compared.
impl PartialEq for HealthPolicy {
    fn eq(&self, other: &Self) -> bool {
        let times = |of: &Self| (of.interval, of.base_ejection_time, of.max_ejection_time);
        let ejects = |of: &Self| {
            let shares = (of.success_rate, of.failure_percentage);
            (of.max_ejection_percent, shares, of.consecutive_failures)
        };
        let returns = |of: &Self| (of.slow_start, of.probe_interval);
        times(self) == times(other)
            && ejects(self) == ejects(other)
            && returns(self) == returns(other)
    }
}

/// [`HealthPolicy::standard`].
impl Default for HealthPolicy {
    fn default() -> Self {
        Self::standard()
    }
}
