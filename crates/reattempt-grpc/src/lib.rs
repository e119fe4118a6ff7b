//! gRPC for reattempt: proposal A6 (client retries) around any gRPC client that speaks
//! `http::Request`.
//!
//! | A6 | here |
//! | --- | --- |
//! | all of this around a tonic client, in one line (feature `tonic`) | [`GrpcClientLayer`] |
//! | status codes | [`Code`], [`CodeSet`], the [reasons] |
//! | Retryable Status Codes, When Retries are Valid, Transparent Retries | [`GrpcClassifier`] |
//! | Pushback | [`GrpcPushback`], in a `PushbackLayer` |
//! | Exposed Retry Metadata | [`PreviousAttemptsLayer`] |
//! | throttling by the status in trailers | [`GrpcOutcomeLayer`] |
//! | servers that send failures in real trailers (not in A6) | [`HoldHeadersLayer`] |
//! | call deadline as DEADLINE_EXCEEDED | [`AsGrpcStatus`]; [`GrpcTimeoutLayer`] reads the caller's `grpc-timeout` |
//! | the status of a call that failed in the channel (feature `tonic`) | [`TonicStatusLayer`] |
//! | retryPolicy, hedgingPolicy, retryThrottling | [`service_config`] |
//! | failures before a call is sent (A54), call credentials | [`ControlPlaneFailure`], [`CallCredentialsLayer`] |
//! | waitForReady | [`WaitForReadyLayer`] |
//! | maxRequestMessageBytes, maxResponseMessageBytes | [`MessageLimitLayer`] |
//! | Memory Management | `reattempt_http::body::ReplayBodyLayer` |
//! | Retry and Hedging Statistics; metrics of A66 and A96 | [`stats`]: [`GrpcStats`](stats::GrpcStats)'s two layers and observer |
//! | spans of A72 | [`spans`]: [`CallSpanLayer`](spans::CallSpanLayer), [`AttemptSpanLayer`](spans::AttemptSpanLayer) |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tokio` (default) | the layers, [`stats`] and [`spans`]. Without it the crate has no runtime: codes, [`GrpcClassifier`], [`GrpcPushback`] and [`service_config`], for simulators |
//! | `hyper`, `hyper-util`, `h2`, `reqwest`, `tonic` | the classifier knows this client's errors; none implies `tokio`. With `tokio`, `tonic` has [`GrpcClientLayer`] and [`TonicStatusLayer`] too |
//! | `tower` (default) | the same for the errors of tower's `Timeout` and `LoadShed` |
//! | `metrics`, `opentelemetry` | a meter for [`stats`]; implies `tokio` |
//! | `serde` | [service configs](service_config) in a program's own settings |
//!
//! # Example
//!
//! Around a tonic channel, with features `tonic`, `hyper` and `h2`, which read its errors. Another
//! kind of channel takes the single layers, in the order of
//! [docs/layer-order.md](https://github.com/reattempt/reattempt/blob/main/docs/layer-order.md).
//!
#![cfg_attr(all(feature = "tokio", feature = "tonic"), doc = "```")]
#![cfg_attr(not(all(feature = "tokio", feature = "tonic")), doc = "```ignore")]
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Full;
//! use reattempt_grpc::GrpcClientLayer;
//! use reattempt_grpc::service_config::ServiceConfig;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use http::Response;
//! # use http_body_util::Empty;
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! # let channel = tower::service_fn(|request: Request<tonic::body::Body>| async move {
//! #     let again = request.headers().contains_key("grpc-previous-rpc-attempts");
//! #     let status = if again { "0" } else { "14" };
//! #     CALLS.fetch_add(1, Ordering::Relaxed);
//! #     let response = Response::builder().header("grpc-status", status);
//! #     Ok::<_, BoxError>(response.body(Empty::<Bytes>::new())?)
//! # });
//! let config = ServiceConfig::parse(r#"{
//!     "methodConfig": [{
//!         "name": [{"service": "shop.Cart", "method": "Get"}],
//!         "timeout": "5s",
//!         "retryPolicy": {
//!             "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
//!             "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
//!         }
//!     }],
//!     "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
//! }"#)?;
//! let client = ServiceBuilder::new().layer(GrpcClientLayer::new(config)).service(channel);
//! // As a generated client does: CartClient::new(client).get(id)
//! let request = Request::post("http://h/shop.Cart/Get").body(Full::<Bytes>::from("frame"))?;
//! let answer = client.oneshot(request).await?;
//! assert_eq!(answer.headers()["grpc-status"], "0");
//! assert_eq!(answer.headers()["grpc-previous-rpc-attempts"], "1");
//! # assert_eq!(CALLS.load(Ordering::Relaxed), 2);
//! # Ok(()) }
//! ```

mod classify;
mod code;
mod code_set;
mod control_plane;
mod head;
mod made_status;
mod method_policy;
mod path_prefix;
mod pushback;
pub mod reasons;
pub mod service_config;

// The layers, and what only they use.
#[cfg(feature = "tokio")]
mod call_credentials;
#[cfg(all(feature = "tokio", feature = "tonic"))]
pub mod client;
#[cfg(feature = "tokio")]
mod error_code;
#[cfg(feature = "tokio")]
mod follow;
#[cfg(feature = "tokio")]
mod hold_headers;
#[cfg(feature = "tokio")]
mod message_limit;
mod metadata;
#[cfg(feature = "tokio")]
mod outcome;
#[cfg(feature = "tokio")]
mod previous_attempts;
#[cfg(feature = "tokio")]
pub mod spans;
#[cfg(feature = "tokio")]
pub mod stats;
#[cfg(feature = "tokio")]
mod status;
#[cfg(all(test, feature = "tokio"))]
mod tests;
#[cfg(feature = "tokio")]
mod timeout;
#[cfg(all(feature = "tokio", feature = "tonic"))]
mod tonic_status;
#[cfg(feature = "tokio")]
mod wait_for_ready;

pub use classify::GrpcClassifier;
pub use code::{Code, UnknownCode};
pub use code_set::CodeSet;
pub use control_plane::ControlPlaneFailure;
pub use method_policy::MethodPolicy;
pub use pushback::{GrpcPushback, RETRY_PUSHBACK_MS};

#[cfg(all(feature = "tokio", feature = "tonic"))]
pub use client::{GrpcClientLayer, GrpcServiceBuilderExt};
#[cfg(all(feature = "tokio", feature = "tonic"))]
pub use tonic_status::{TonicStatus, TonicStatusBody, TonicStatusFuture, TonicStatusLayer};
#[cfg(feature = "tokio")]
pub use {
    call_credentials::{
        CallCredentials, CallCredentialsFuture, CallCredentialsLayer, WithCallCredentials,
    },
    error_code::{BodyErrorCode, ByKnownError, ByTransportError, ErrorCodes},
    follow::{FollowedBody, FollowedFuture},
    hold_headers::{HeldBody, HoldHeaders, HoldHeadersFuture, HoldHeadersLayer, Unary},
    message_limit::{
        LimitedRequestBody, LimitedResponseBody, MessageLimit, MessageLimitFuture,
        MessageLimitLayer, MessageSide, MessageTooLong,
    },
    outcome::{GrpcOutcome, GrpcOutcomeBody, GrpcOutcomeFuture, GrpcOutcomeLayer},
    previous_attempts::{
        PREVIOUS_ATTEMPTS, PreviousAttempts, PreviousAttemptsFuture, PreviousAttemptsLayer,
    },
    status::AsGrpcStatus,
    timeout::{GRPC_TIMEOUT, GrpcTimeout, GrpcTimeoutLayer, renew_timeout},
    wait_for_ready::{WaitForReady, WaitForReadyFuture, WaitForReadyLayer, WaitsForReady},
};

/// The trailer that carries the status code.
pub const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");
/// The trailer that carries the status message, percent-encoded.
pub const GRPC_MESSAGE: http::HeaderName = http::HeaderName::from_static("grpc-message");

// Of the layers that may be outermost.
#[cfg(all(feature = "tokio", feature = "tonic"))]
reattempt::explain_services! { [S] TonicStatus<S> }
#[cfg(feature = "tokio")]
reattempt::explain_services! {
    [S] GrpcTimeout<S>,
    [S, C, R] spans::CallSpan<S, C, R>,
    [S, C, R] stats::CallStats<S, C, R>,
}
