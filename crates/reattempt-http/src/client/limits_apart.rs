//! A throttle for servers that limit each key.

use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, TokenBucket};

use crate::reasons::HTTP_TOO_MANY_REQUESTS;

/// A token bucket that ignores rate limits: they neither cost nor need a token. A limit of the
/// caller's own key, which also says when to come again, is no outage.
#[derive(Debug, Default)]
pub(super) struct LimitsApart(TokenBucket);

fn is_limit(failure: &Failure) -> bool {
    failure.reason == HTTP_TOO_MANY_REQUESTS
}

/// Paying, refunding and recovering are the defaults, as of the bucket.
impl RetryThrottle for LimitsApart {
    fn settled(&self, outcome: Settled<'_>) {
        if !matches!(outcome, Settled::Failure(failure) if is_limit(failure)) {
            self.0.settled(outcome);
        }
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        failure.is_some_and(is_limit) || self.0.allows(failure)
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.0.milli_tokens()
    }

    fn milli_headroom(&self) -> Option<u64> {
        self.0.milli_headroom()
    }
}
