//! GitHub's REST API.

use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter};
use reattempt::strategy::Extended;

use super::{HttpClientLayer, MINUTE, SECOND, at_most};
use crate::reasons::HTTP_TOO_MANY_REQUESTS;
use crate::retry_after::BeyondCap;
use crate::{HttpClassifier, HttpPushback, StatusSet};

const ATTEMPTS: u32 = 4;

impl HttpClientLayer {
    /// For GitHub's REST API.
    ///
    /// | setting | value | source |
    /// | --- | --- | --- |
    /// | attempts | 4 | `@octokit/plugin-retry`: 3 retries |
    /// | which failures | 429, and 403 with `Retry-After` or `x-ratelimit-remaining: 0`; 408, 500, 502, 503, 504; transport errors | "Rate limits for the REST API" |
    /// | delay after a rate limit | `Retry-After`, else with `x-ratelimit-remaining: 0` until `x-ratelimit-reset`, each up to 1 s later; else 60 to 75 s, doubled | "Best practices for using the REST API": at least one minute, then exponentially more |
    /// | delay after other failures | 1, 4, 9 s, up to a quarter shorter | `@octokit/plugin-retry`: the square of the attempt's number |
    /// | the longest delay | 1 h; beyond it the response is returned | the window of the primary rate limit |
    /// | time to the response head | 10 min for all attempts together | room for three delays after a secondary limit |
    /// | time of one attempt | 30 s | GitHub ends requests after 10 s |
    /// | which requests | idempotent ones, or those that were not processed; a request that ran into a rate limit was not | RFC 6585, section 4 |
    /// | throttle | as [`standard`](Self::standard), but rate limits neither cost nor need a token | a limit of the caller's own key is no outage |
    /// | all others | as [`standard`](Self::standard) | |
    ///
    /// A delay that does not fit before the deadline is not begun: the 403 or 429 is returned at
    /// once, with its headers. `.timeout(..)` of an hour and more waits for the next window. A 403
    /// without these headers is a refusal, or a secondary limit that only its text tells; it is
    /// returned.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reattempt_http::HttpClientLayer;
    ///
    /// // A job at night, which may wait for the next hour's requests.
    /// let layer = HttpClientLayer::github().timeout(Duration::from_secs(2 * 3600));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn github() -> Self {
        let squares = |retries: u32| SECOND * retries.saturating_add(1).saturating_pow(2);
        let other = Backoff::calculated(squares, MINUTE).jitter(Jitter::Shortened(0.25));
        // From 60 s: the jitter takes at most a fifth of 75 s.
        let limited = Backoff::exponential(Duration::from_secs(75), HOUR);
        let limited = limited.jitter(Jitter::Shortened(0.2));
        let strategy = Extended::new(at_most(ATTEMPTS, other))
            .by(HTTP_TOO_MANY_REQUESTS, at_most(ATTEMPTS, limited));
        let pushback = HttpPushback::new().only_exhausted_limits();
        let retryable = StatusSet::of(&[408, 429, 500, 502, 503, 504]);
        Self::standard()
            .strategy(strategy)
            .classifier(HttpClassifier::new().retryable(retryable).limited_403())
            .pushback(pushback.cap(HOUR, BeyondCap::Stop).spread(SECOND))
            .limits_apart()
            .timeout(10 * MINUTE)
            .attempt_timeout(Duration::from_secs(30))
    }
}

const HOUR: Duration = Duration::from_secs(3600);
