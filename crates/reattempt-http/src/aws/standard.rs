//! When a retry of the standard mode is sent.

use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView};

use super::{AwsVersion, is_throttling};

/// The maximum that 2.1 adds to its own back-off on the server's request.
const MOST_MORE: Duration = Duration::from_secs(5);
/// The first back-off after a throttling error.
const THROTTLED: Duration = Duration::from_secs(1);

/// The strategy of the standard mode. Combine it with an [`AwsQuota`](super::AwsQuota); otherwise
/// nothing bounds the retries of many calls.
#[derive(Clone, Debug)]
pub struct AwsStandard {
    version: AwsVersion,
    max_attempts: u32,
    usual: Shape,
    randomness: Randomness,
    on_deadline: Option<OnDeadline>,
}

/// The parameters shared by both back-offs, after throttling and after other errors.
#[derive(Clone, Copy, Debug)]
struct Shape {
    initial: Duration,
    multiplier: f64,
    most: Duration,
    jitter: Jitter,
}

impl AwsStandard {
    /// With the published parameters.
    #[must_use]
    pub const fn new(version: AwsVersion) -> Self {
        Self {
            version,
            max_attempts: AwsVersion::ATTEMPTS,
            usual: Shape {
                initial: version.initial(),
                multiplier: 2.0,
                most: AwsVersion::MOST_BACKOFF,
                jitter: Jitter::Full,
            },
            randomness: Randomness::Thread,
            on_deadline: None,
        }
    }

    /// The maximum of attempts, including the first (0 counts as 1).
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the first back-off. With 2.1 the one after a throttling error stays 1 s; with 2.0 it is
    /// this one too.
    #[must_use]
    pub const fn initial(mut self, initial: Duration) -> Self {
        self.usual.initial = initial;
        self
    }

    /// Sets the factor between two back-offs.
    #[must_use]
    pub const fn multiplier(mut self, multiplier: f64) -> Self {
        self.usual.multiplier = multiplier;
        self
    }

    /// Sets the maximum back-off.
    #[must_use]
    pub const fn most_backoff(mut self, most: Duration) -> Self {
        self.usual.most = most;
        self
    }

    /// Sets the jitter.
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.usual.jitter = jitter;
        self
    }

    /// Sets the source of randomness; the thread's generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// What to do with a delay that would pass the deadline; by default as the classifier's
    /// protocol does, so [`OnDeadline::GiveUp`] with [`HttpClassifier`](crate::HttpClassifier).
    #[must_use]
    pub const fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = Some(on_deadline);
        self
    }
}

impl RetryStrategy for AwsStandard {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.has_used_up(self.max_attempts) {
            return Decision::Exhausted;
        }
        let Shape {
            initial,
            multiplier,
            most,
            jitter,
        } = self.usual;
        let initial = match self.version {
            AwsVersion::V2_1 if is_throttling(view.failure) => THROTTLED,
            AwsVersion::V2_0 | AwsVersion::V2_1 => initial,
        };
        let backoff = Backoff::exponential(initial, most)
            .multiplier(multiplier)
            .jitter(jitter)
            .randomness(self.randomness.clone());
        // Counts all retries so far: a server-provided delay does not restart the growth.
        Decision::After(backoff.delay(view.retries, view.previous_delay))
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(self.max_attempts)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.on_deadline
    }

    fn delay_asked(&self, _: &Failure, asked: Duration, own: Duration) -> Duration {
        match self.version {
            AwsVersion::V2_0 => asked,
            AwsVersion::V2_1 => asked.clamp(own, own.saturating_add(MOST_MORE)),
        }
    }
}
