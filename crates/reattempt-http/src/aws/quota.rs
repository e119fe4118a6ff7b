//! The quota shared by the retries of all calls to one service.

use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, Stage, reason};

use super::AwsVersion;

/// The retry quota of the standard mode: put it in a `ThrottleLayer`, or name it in a policy.
///
/// Failures themselves cost nothing, only the retries after them. A hedge costs as much as a retry
/// (by the failure that caused it, if one did), and returns one token when its call succeeds, like
/// any call.
#[derive(Debug)]
pub struct AwsQuota {
    version: AwsVersion,
    most: u32,
    tokens: AtomicU32,
}

impl AwsQuota {
    /// A full quota of [`AwsVersion::TOKENS`].
    #[must_use]
    pub const fn new(version: AwsVersion) -> Self {
        Self::of(version, AwsVersion::TOKENS)
    }

    /// A full quota of this many tokens.
    #[must_use]
    pub const fn of(version: AwsVersion, tokens: u32) -> Self {
        Self {
            version,
            most: tokens,
            tokens: AtomicU32::new(tokens),
        }
    }

    /// The remaining tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// The version of its parameters.
    #[must_use]
    pub const fn version(&self) -> AwsVersion {
        self.version
    }

    fn price(&self, failure: Option<&Failure>) -> u32 {
        const ANY: Failure = Failure::new(reason::UNKNOWN, Stage::InFlight);
        self.version.price(failure.unwrap_or(&ANY))
    }

    fn take(&self, price: u32) -> bool {
        // Relaxed: the value guards no other memory.
        self.tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
                tokens.checked_sub(price)
            })
            .is_ok()
    }

    fn give(&self, more: u32) {
        let _ = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
                // Full, the usual case: nothing to write.
                let next = tokens.saturating_add(more).min(self.most);
                (next != tokens).then_some(next)
            });
    }
}

impl RetryThrottle for AwsQuota {
    fn settled(&self, outcome: Settled<'_>) {
        if outcome == Settled::Success {
            self.give(1);
        }
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        self.tokens() >= self.price(failure)
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        self.take(self.price(failure))
    }

    fn refund(&self, failure: Option<&Failure>) {
        self.give(self.price(failure));
    }

    fn recovered(&self, failure: Option<&Failure>) {
        self.give(failure.map_or(1, |failure| self.version.price(failure)));
    }

    fn milli_tokens(&self) -> Option<u64> {
        Some(u64::from(self.tokens()) * 1000)
    }
    /// Zero if a retry of the highest price would be refused.
    fn milli_headroom(&self) -> Option<u64> {
        let most_refused = self.version.highest_price() - 1;
        let left = self.tokens().saturating_sub(most_refused);
        Some(u64::from(left) * 1000)
    }
}
