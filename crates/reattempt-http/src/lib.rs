//! HTTP support for reattempt: classifies statuses and transport errors, reads `Retry-After`, and
//! makes bodies replayable.
//!
//! | question | answered by |
//! | --- | --- |
//! | how does a client get all of this in one line? | [`HttpClientLayer`] |
//! | how does reqwest's own builder? | [`send_with`](reqwest::RequestBuilderExt::send_with); below a stack [`ReqwestService`](reqwest::ReqwestService) |
//! | is this status or error retryable? | [`HttpClassifier`], with the [reasons] by meaning |
//! | how far did a failed request come? | [`TransportFault`], found in the errors of hyper, hyper-util, h2, reqwest, tonic, tower; [`AnyTransportError`] for all of them |
//! | when does the server allow a retry? | [`HttpPushback`], in a `PushbackLayer` |
//! | may this POST be retried? | [`IdempotencyKeyLayer`], which reads keys and can make them |
//! | how is a body sent twice? | [`ReplayBody`](body::ReplayBody), [`ReplayBodyLayer`](body::ReplayBodyLayer) |
//! | how is a response body bounded in time? | [`DeadlineBodyLayer`](body::DeadlineBodyLayer) |
//! | did the response arrive completely? | [`OutcomeBodyLayer`](body::OutcomeBodyLayer) |
//! | how is the connection of a failed response reused? | [`DrainBodyLayer`](body::DrainBodyLayer) |
//! | what is different on a route? | [`HttpRoute`], or a whole table of [policies](policy) from JSON |
//! | how do the AWS SDKs retry? | [`AwsStandard`](aws::AwsStandard) and [`AwsQuota`](aws::AwsQuota) |
//! | what do chained services tell each other? | the headers and layers of [`hop`] |
//! | how is each attempt measured? | [`HttpConvention`], in `reattempt::telemetry` |
//! | what happened in the call? | [`ExposeInfoLayer`], in the response's extensions |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tokio` (default) | the presets ([`HttpClientLayer`]) and layers: [`body`], [`hop`], [`IdempotencyKeyLayer`], [`ExposeInfoLayer`]. Without it the crate has no runtime: classifiers, strategies, throttles, pushback and [policies](policy), for simulators |
//! | `hyper`, `hyper-util`, `h2`, `reqwest`, `tonic` | [`TransportFault`] knows this client's errors; none implies `tokio` |
//! | `reqwest` with `tokio` | [`reqwest`](mod@reqwest): its client below a stack, its builder with retries |
//! | `tower` (default) | [`TransportFault`] knows the errors of tower's `Timeout` and `LoadShed`; links tokio's timers, but does not imply `tokio` |
//! | `serde` | [policies](policy) in a program's own settings |
//!
//! An error of a type that is not known is fatal; the recovery layer logs it once, at WARN, with
//! the type and the feature that would read it.
//!
//! # Example
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! use std::time::Duration;
//! use http::Request;
//! use http_body_util::Full;
//! use reattempt_http::HttpClientLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use reattempt_http::body::ReplayBody;
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # type Body = Full<bytes::Bytes>;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), reattempt::ClientError<std::io::Error>> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! # let hyper_client = tower::service_fn(|_: Request<ReplayBody<Body>>| async {
//! #     let mut response = http::Response::new(Body::default());
//! #     if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
//! #         *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
//! #         response.headers_mut().insert("retry-after", http::HeaderValue::from_static("2"));
//! #     }
//! #     Ok::<_, std::io::Error>(response)
//! # });
//! let client = ServiceBuilder::new().layer(HttpClientLayer::standard()).service(hyper_client);
//! let began = tokio::time::Instant::now();
//! let answer = client.oneshot(Request::put("http://h/k").body(Body::from("v")).unwrap()).await?;
//! assert_eq!(answer.status(), 200);
//! assert!(began.elapsed() >= Duration::from_secs(2), "as the server asked");
//! # Ok(()) }
//! ```
//!
//! The single layers, and where each goes:
//! [docs/layer-order.md](https://github.com/reattempt/reattempt/blob/main/docs/layer-order.md).

pub mod aws;
mod by_route;
mod calendar;
pub mod policy;
pub mod reasons;
mod replay_body_error;
mod retry_after;
mod route;
mod status;
mod status_set;
mod transport;
mod wall_clock;

mod gives_up;

// The layers, and what only they use.
#[cfg(feature = "tokio")]
pub mod body;
#[cfg(feature = "tokio")]
pub mod call;
#[cfg(feature = "tokio")]
pub mod client;
#[cfg(feature = "tokio")]
mod convention;
#[cfg(feature = "tokio")]
pub mod hop;
#[cfg(feature = "tokio")]
mod idempotency_key;
#[cfg(feature = "tokio")]
mod info;
#[cfg(all(feature = "tokio", feature = "reqwest"))]
pub mod reqwest;
#[cfg(feature = "tokio")]
mod sealed;

pub use gives_up::gives_up;
pub use policy::{HttpPolicies, LiveHttpPolicies};
pub use replay_body_error::{CallOver, ReplayBodyError};
pub use retry_after::{BeyondCap, HttpPushback};
pub use route::{HttpRoute, IdempotencyKeys};
pub use status::{HttpClassifier, JudgeHead};
pub use status_set::StatusSet;
pub use transport::{AnyTransportError, RefusedStream, TransportError, TransportFault};

#[cfg(feature = "tokio")]
pub use {
    client::{HttpClientLayer, HttpServiceBuilderExt, LimitsApart},
    convention::HttpConvention,
    idempotency_key::{IdempotencyKey, IdempotencyKeyLayer},
    info::{ExposeInfo, ExposeInfoFuture, ExposeInfoLayer},
};

// Of the layers that may be outermost.
#[cfg(feature = "tokio")]
reattempt::explain_services! {
    [S, R, I] client::HttpClient<S, R, I>,
    [S] idempotency_key::IdempotencyKey<S>,
    [S] info::ExposeInfo<S>,
    [S, M] body::DeadlineBodyService<S, M>,
    [S] body::ReplayBodyService<S>,
    [S] hop::GaveUpService<S>,
}
