//! A throttle for servers that limit each key.

use std::sync::Arc;

use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, TokenBucket};

use super::HttpClientLayer;
use crate::reasons::HTTP_TOO_MANY_REQUESTS;

/// A token bucket that ignores 429, and a 403 that the classifier reads as one: they neither cost
/// nor need a token.
///
/// For a server that limits each key: its limit, which mostly says when to come again, is no
/// outage. With a plain bucket a client that often runs into its limit soon repeats nothing, and
/// `Retry-After` is not followed either. Other failures count as in the bucket.
/// [`github`](HttpClientLayer::github) and [`llm`](HttpClientLayer::llm) have it, and their circuit
/// breakers, backends and admission do not count these limits as failures either, as those of any
/// other preset do. A `Retry-After` keeps calls off a backend all the same.
///
/// ```
/// use std::sync::Arc;
/// use reattempt_http::{HttpClientLayer, LimitsApart};
///
/// # let _: HttpClientLayer =
/// HttpClientLayer::standard().throttle_per_origin(|| Arc::new(LimitsApart::default()));
/// ```
#[derive(Debug, Default)]
pub struct LimitsApart(TokenBucket);

impl LimitsApart {
    /// Around this bucket; by default one of 100 tokens, a tenth for each success.
    #[must_use]
    pub const fn new(bucket: TokenBucket) -> Self {
        Self(bucket)
    }
}

impl HttpClientLayer {
    /// For an API that limits each key: neither the throttles nor the circuit breakers nor backends
    /// nor admission count that.
    pub(super) fn limits_apart(mut self) -> Self {
        self.settings.limits_apart = true;
        self.throttle_per_origin(|| Arc::new(LimitsApart::default()))
    }
}

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
