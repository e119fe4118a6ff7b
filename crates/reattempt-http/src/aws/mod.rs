//! AWS: the published parameters of the SDKs' standard retry mode, as a strategy and its throttle.
//!
//! The SDKs bound retries by a quota that a client shares: each retry costs tokens, a call that
//! succeeds after retries returns the price of its last one, and a call that succeeds at once
//! returns one token. With an empty quota nothing is retried. [`AwsStandard`] decides when to
//! retry, [`AwsQuota`] whether; an [`AwsVersion`] selects the parameters:
//!
//! | parameter | 2.0 | 2.1 |
//! | --- | --- | --- |
//! | attempts, the first included | 3 | 3 |
//! | tokens of the quota | 500 | 500 |
//! | price of a retry | 5 | 14 |
//! | … after a timeout | 10 | 14 |
//! | … after a throttling error | 5 | 5 |
//! | returned by a call that succeeds at once | 1 | 1 |
//! | returned by a call that succeeds after a retry | the price of its last retry | the same |
//! | first back-off | 1 s | 50 ms |
//! | … after a throttling error | 1 s | 1 s |
//! | multiplier, maximum | × 2, 20 s | × 2, 20 s |
//! | jitter | full | full |
//! | `x-amz-retry-after`, milliseconds | not read | at least the back-off, at most 5 s more |
//! | `Retry-After` | as the pushback reader beside it is set | not read by `HttpPushback::amz` |
//!
//! A timeout is an attempt without a response in its time ([`HTTP_TIMEOUT`]); a throttling error is
//! 429 ([`HTTP_TOO_MANY_REQUESTS`]). AWS itself uses the error code in the body: a classifier that
//! reads it returns this reason for throttling codes. Some SDKs charge the price of a timeout for
//! every transient error; the values here are those of the others. For DynamoDB, 2.1 makes four
//! attempts with a first back-off of 25 ms: set them with
//! [`max_attempts`](AwsStandard::max_attempts) and [`initial`](AwsStandard::initial).
//!
//! reattempt's own rules still apply: a request that is not idempotent is retried only where that
//! is safe, while the SDKs retry every operation. Stamp such calls as idempotent, or list statuses
//! that are [safe](crate::HttpClassifier::safe).
//!
//! ```
//! use std::sync::Arc;
//! use http::{Request, Response};
//! use reattempt::{PushbackLayer, RetryLayer, ThrottleLayer};
//! use reattempt_http::aws::{AwsQuota, AwsStandard, AwsVersion};
//! use reattempt_http::{HttpClassifier, HttpPushback};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let quota = Arc::new(AwsQuota::new(AwsVersion::V2_1)); // one for all calls to a service
//! let classifier = HttpClassifier::new().retryable(AwsVersion::STATUSES);
//! let client = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(quota.clone()))
//!     .layer(RetryLayer::new(classifier, AwsStandard::new(AwsVersion::V2_1)))
//!     .layer(PushbackLayer::new(HttpPushback::amz()))
//!     .service_fn(|_: Request<()>| async {
//!         Ok::<_, std::convert::Infallible>(Response::builder().status(500).body(()).unwrap())
//!     });
//! assert_eq!(client.oneshot(Request::new(())).await?.status(), 500);
//! assert_eq!(quota.tokens(), 500 - 2 * 14);
//! # Ok(()) }
//! ```
//!
//! In a JSON [policy](crate::policy) this is `"retry": {"preset": "aws-standard-2.1"}`.

mod quota;
mod standard;
#[cfg(test)]
mod tests;

use std::time::Duration;

use reattempt::Failure;

pub use quota::AwsQuota;
pub use standard::AwsStandard;

use crate::StatusSet;
use crate::reasons::{HTTP_TIMEOUT, HTTP_TOO_MANY_REQUESTS};

/// The version of the standard mode's parameters, listed in this [module](self)'s documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AwsVersion {
    /// Used by all SDKs until 2026.
    V2_0,
    /// Used by the SDKs with `AWS_NEW_RETRIES_2026=true`.
    V2_1,
}

impl AwsVersion {
    /// All versions, the oldest first.
    pub const ALL: &'static [Self] = &[Self::V2_0, Self::V2_1];
    /// The statuses that the standard mode treats as transient or throttling errors:
    /// 429, 500, 502, 503, 504.
    pub const STATUSES: StatusSet = StatusSet::of(&[429, 500, 502, 503, 504]);
    /// Maximum of attempts, including the first.
    pub const ATTEMPTS: u32 = 3;
    /// Tokens of a full quota.
    pub const TOKENS: u32 = 500;
    /// The maximum back-off, before jitter.
    pub const MOST_BACKOFF: Duration = Duration::from_secs(20);

    /// Its name in a JSON policy: `aws-standard-2.0`, `aws-standard-2.1`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_0 => "aws-standard-2.0",
            Self::V2_1 => "aws-standard-2.1",
        }
    }

    /// The first back-off, before jitter.
    #[must_use]
    pub const fn initial(self) -> Duration {
        match self {
            Self::V2_0 => Duration::from_secs(1),
            Self::V2_1 => Duration::from_millis(50),
        }
    }

    /// The price of a retry after this failure, in tokens.
    #[must_use]
    pub fn price(self, failure: &Failure) -> u32 {
        match self {
            Self::V2_0 if failure.reason == HTTP_TIMEOUT => self.highest_price(),
            Self::V2_1 if !is_throttling(failure) => self.highest_price(),
            Self::V2_0 | Self::V2_1 => 5,
        }
    }

    const fn highest_price(self) -> u32 {
        match self {
            Self::V2_0 => 10,
            Self::V2_1 => 14,
        }
    }
}

fn is_throttling(failure: &Failure) -> bool {
    failure.reason == HTTP_TOO_MANY_REQUESTS
}
