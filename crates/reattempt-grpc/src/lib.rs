//! gRPC for reattempt: proposal A6 (client retries) around any gRPC client that speaks
//! `http::Request`.
//!
//! | A6 | here |
//! | --- | --- |
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
//! Around a tonic channel (with features `tonic`, `hyper` and `h2`, which read its errors) or any
//! other service of `http::Request`:
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{DeadlineLayer, PushbackLayer, RetryLayer, RouteLayer};
//! use reattempt_grpc::service_config::ServiceConfig;
//! use reattempt_grpc::{
//!     AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
//!     PreviousAttemptsLayer,
//! };
//! use reattempt_http::body::{DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let config = ServiceConfig::parse(r#"{
//!     "methodConfig": [{
//!         "name": [{"service": "shop.Cart"}],
//!         "timeout": "5s",
//!         "retryPolicy": {
//!             "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
//!             "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
//!         }
//!     }],
//!     "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
//! }"#)?;
//! let channel = ServiceBuilder::new()
//!     .layer(RouteLayer::new(config))
//!     .layer(GrpcTimeoutLayer)
//!     .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
//!     .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(GrpcClassifier::new(), MaxAttempts::standard()))
//!     .layer(PreviousAttemptsLayer)
//!     .layer(PushbackLayer::new(GrpcPushback))
//!     .layer(GrpcOutcomeLayer::new())
//!     .service_fn(|request: Request<ReplayBody<Full<Bytes>>>| async move {
//!         // your channel
//!         # let mut response = Response::new(Empty::<Bytes>::new());
//!         # let again = request.headers().contains_key("grpc-previous-rpc-attempts");
//!         # let status = if again { "0" } else { "14" };
//!         # response.headers_mut().insert("grpc-status", http::HeaderValue::from_static(status));
//!         # CALLS.fetch_add(1, Ordering::Relaxed);
//!         # Ok::<_, BoxError>(response)
//!     });
//! let request = Request::post("http://h/shop.Cart/Add").body(Full::from("frame")).unwrap();
//! let answer = channel.oneshot(request).await?;
//! assert_eq!(answer.headers()["grpc-status"], "0");
//! assert_eq!(answer.headers()["grpc-previous-rpc-attempts"], "1");
//! # assert_eq!(CALLS.load(Ordering::Relaxed), 2);
//! # Ok(()) }
//! ```

mod call_credentials;
mod classify;
mod code;
mod code_set;
mod control_plane;
mod error_code;
mod follow;
mod head;
mod hold_headers;
mod message_limit;
mod metadata;
mod method_policy;
mod outcome;
mod previous_attempts;
mod pushback;
pub mod reasons;
pub mod service_config;
pub mod spans;
pub mod stats;
mod status;
#[cfg(test)]
mod tests;
mod timeout;
#[cfg(feature = "tonic")]
mod tonic_status;
mod wait_for_ready;

pub use call_credentials::{
    CallCredentials, CallCredentialsFuture, CallCredentialsLayer, WithCallCredentials,
};
pub use classify::GrpcClassifier;
pub use code::{Code, UnknownCode};
pub use code_set::CodeSet;
pub use control_plane::ControlPlaneFailure;
pub use error_code::{BodyErrorCode, ByKnownError, ByTransportError, ErrorCodes};
pub use follow::{FollowedBody, FollowedFuture};
pub use hold_headers::{HeldBody, HoldHeaders, HoldHeadersFuture, HoldHeadersLayer, Unary};
pub use message_limit::{
    LimitedRequestBody, LimitedResponseBody, MessageLimit, MessageLimitFuture, MessageLimitLayer,
    MessageSide, MessageTooLong,
};
pub use method_policy::MethodPolicy;
pub use outcome::{GrpcOutcome, GrpcOutcomeBody, GrpcOutcomeFuture, GrpcOutcomeLayer};
pub use previous_attempts::{
    PREVIOUS_ATTEMPTS, PreviousAttempts, PreviousAttemptsFuture, PreviousAttemptsLayer,
};
pub use pushback::{GrpcPushback, RETRY_PUSHBACK_MS};
pub use status::AsGrpcStatus;
pub use timeout::{GRPC_TIMEOUT, GrpcTimeout, GrpcTimeoutLayer, renew_timeout};
#[cfg(feature = "tonic")]
pub use tonic_status::{TonicStatus, TonicStatusBody, TonicStatusFuture, TonicStatusLayer};
pub use wait_for_ready::{WaitForReady, WaitForReadyFuture, WaitForReadyLayer, WaitsForReady};

/// The trailer that carries the status code.
pub const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");
/// The trailer that carries the status message, percent-encoded.
pub const GRPC_MESSAGE: http::HeaderName = http::HeaderName::from_static("grpc-message");
