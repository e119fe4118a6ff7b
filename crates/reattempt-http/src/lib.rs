//! HTTP support for reattempt: classifies statuses and transport errors, reads `Retry-After`, and
//! makes bodies replayable.
//!
//! | question | answered by |
//! | --- | --- |
//! | is this status or error retryable? | [`HttpClassifier`], with the [reasons] by meaning |
//! | how far did a failed request come? | [`TransportFault`], found in the errors of hyper, hyper-util, h2, reqwest, tonic; [`AnyTransportError`] for all of them |
//! | when does the server allow a retry? | [`HttpPushback`], in a `PushbackLayer` |
//! | may this POST be retried? | [`IdempotencyKeyLayer`] |
//! | how is a body sent twice? | [`ReplayBody`](body::ReplayBody), [`ReplayBodyLayer`](body::ReplayBodyLayer) |
//! | how is a response body bounded in time? | [`DeadlineBodyLayer`](body::DeadlineBodyLayer) |
//! | did the response arrive completely? | [`OutcomeBodyLayer`](body::OutcomeBodyLayer) |
//! | how is the connection of a failed response reused? | [`DrainBodyLayer`](body::DrainBodyLayer) |
//! | what is different on a route? | [`HttpRoute`], or a whole table of [policies](policy) from JSON |
//! | how do the AWS SDKs retry? | [`AwsStandard`](aws::AwsStandard) and [`AwsQuota`](aws::AwsQuota) |
//! | what do chained services tell each other? | the headers and layers of [`hop`] |
//! | what happened in the call? | [`ExposeInfoLayer`], in the response's extensions |
//!
//! ```
//! use std::time::Duration;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{PushbackLayer, RetryLayer};
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use reattempt_http::{HttpClassifier, HttpPushback};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # type Body = Full<bytes::Bytes>;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! let client = ServiceBuilder::new()
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard()))
//!     .layer(PushbackLayer::new(HttpPushback::new()))
//!     .service_fn(|_: Request<ReplayBody<Body>>| async {
//!         # let busy = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
//!         # let mut response = Response::new(());
//!         # if busy {
//!         #     *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
//!         #     response.headers_mut().insert("retry-after", http::HeaderValue::from_static("2"));
//!         # }
//!         # Ok::<_, std::convert::Infallible>(response)
//!         // your HTTP client
//!     });
//! let began = tokio::time::Instant::now();
//! let answer = client.oneshot(Request::put("http://h/k").body(Body::from("v")).unwrap()).await?;
//! assert_eq!(answer.status(), 200);
//! assert_eq!(began.elapsed(), Duration::from_secs(2), "as the server asked");
//! # Ok(()) }
//! ```

mod any_error;
pub mod aws;
pub mod body;
pub mod hop;
mod idempotency_key;
mod info;
pub mod json;
pub mod policy;
pub mod reasons;
mod retry_after;
mod route;
mod status;
mod status_set;
mod transport;

pub use any_error::AnyTransportError;
pub use idempotency_key::{IdempotencyKey, IdempotencyKeyLayer};
pub use info::{ExposeInfo, ExposeInfoFuture, ExposeInfoLayer};
pub use policy::{HttpPolicies, LiveHttpPolicies};
pub use retry_after::{BeyondCap, HttpPushback};
pub use route::HttpRoute;
pub use status::HttpClassifier;
pub use status_set::StatusSet;
pub use transport::{RefusedStream, TransportError, TransportFault};
