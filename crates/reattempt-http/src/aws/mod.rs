//! AWS: the published figures of the SDKs' standard retry mode, as a strategy and the throttle that
//! goes with it.
//!
//! The SDKs bound retries by a quota that a client shares: each retry takes its price, a call that
//! a retry mended gives the price of its last one back, and a call that works at once gives one
//! token. An empty quota sends nothing again. [`AwsStandard`] says when, [`AwsQuota`] says whether,
//! both by an [`AwsVersion`]:
//!
//! | figure | 2.0 | 2.1 |
//! | --- | --- | --- |
//! | attempts, the first included | 3 | 3 |
//! | tokens of the quota | 500 | 500 |
//! | price of a retry | 5 | 14 |
//! | … after a timeout | 10 | 14 |
//! | … after a throttling error | 5 | 5 |
//! | given for a call that works at once | 1 | 1 |
//! | given back for a call that a retry mended | the price of its last retry | the same |
//! | first back-off | 1 s | 50 ms |
//! | … after a throttling error | 1 s | 1 s |
//! | growth, longest | × 2, 20 s | × 2, 20 s |
//! | jitter | full | full |
//! | `x-amz-retry-after`, milliseconds | not read | at least the back-off, at most 5 s more |
//!
//! A timeout is an attempt without an answer in its time ([`HTTP_TIMEOUT`]); a throttling error is
//! 429 ([`HTTP_TOO_MANY_REQUESTS`]). AWS itself goes by the error code in the body: a classifier
//! that reads those says this reason for the codes that throttle. Some SDKs take the price of a
//! timeout for every transient error; the figures here are those of the others. For DynamoDB 2.1
//! has four attempts and a first back-off of 25 ms: say so with
//! [`max_attempts`](AwsStandard::max_attempts) and [`initial`](AwsStandard::initial).
//!
//! What is ours stays: a request that is not idempotent goes out again only where that is safe,
//! while the SDKs repeat every operation. Stamp such calls as idempotent, or list statuses that are
//! [safe](crate::HttpStatus::safe).
//!
//! ```
//! use std::sync::Arc;
//! use http::{Request, Response};
//! use reattempt::{PushbackLayer, RetryLayer, ThrottleLayer};
//! use reattempt_http::aws::{AwsQuota, AwsStandard, AwsVersion};
//! use reattempt_http::{HttpStatus, RetryAfter};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), std::convert::Infallible> {
//! let quota = Arc::new(AwsQuota::new(AwsVersion::V2_1)); // one for all calls to a service
//! let client = ServiceBuilder::new()
//!     .layer(ThrottleLayer::new(quota.clone()))
//!     .layer(RetryLayer::new(HttpStatus::new().retryable(AwsVersion::STATUSES), AwsStandard::new(AwsVersion::V2_1)))
//!     .layer(PushbackLayer::new(RetryAfter::amz()))
//!     .service_fn(|_: Request<()>| async {
//!         Ok::<_, std::convert::Infallible>(Response::builder().status(500).body(()).unwrap())
//!     });
//! assert_eq!(client.oneshot(Request::new(())).await?.status(), 500);
//! assert_eq!(quota.tokens(), 500 - 2 * 14);
//! # Ok(()) }
//! ```
//!
//! In a JSON [policy](crate::policy) the same is `"retry": {"preset": "aws-standard-2.1"}`.

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

/// Which figures of the standard mode: the page of this [module](self) has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AwsVersion {
    /// Those of all SDKs until 2026.
    V2_0,
    /// Those that the SDKs have for `AWS_NEW_RETRIES_2026=true`.
    V2_1,
}

impl AwsVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 2] = [Self::V2_0, Self::V2_1];
    /// What the standard mode takes for transient or throttling errors, as far as a status tells:
    /// 429, 500, 502, 503, 504.
    pub const STATUSES: StatusSet = StatusSet::of(&[429, 500, 502, 503, 504]);
    /// Attempts, the first included.
    pub const ATTEMPTS: u32 = 3;
    /// Tokens of a full quota.
    pub const TOKENS: u32 = 500;
    /// The longest back-off, before jitter.
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

    /// What a retry after this failure takes from the quota.
    #[must_use]
    pub fn price(self, failure: &Failure) -> u32 {
        match self {
            Self::V2_0 if failure.reason == HTTP_TIMEOUT => 10,
            Self::V2_1 if !is_throttling(failure) => 14,
            Self::V2_0 | Self::V2_1 => 5,
        }
    }
}

fn is_throttling(failure: &Failure) -> bool {
    failure.reason == HTTP_TOO_MANY_REQUESTS
}
