//! `GrpcClientLayer`: gRPC A6 for a tonic client in one line (feature `tonic`).
//!
//! A generated client takes the service unchanged, for calls of all four kinds. It is an ordinary
//! layer: the single layers in the documented order, and nothing is possible only through it.
//!
//! ```
//! use reattempt_grpc::GrpcClientLayer;
//! use reattempt_grpc::service_config::ServiceConfig;
//! use tonic::transport::Endpoint;
//! use tower::ServiceBuilder;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), reattempt::config::Faults> {
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
//! let endpoint = Endpoint::from_static("http://[::1]:50051");
//! let channel = ServiceBuilder::new()
//!     .layer(GrpcClientLayer::new(config))
//!     .service(endpoint.connect_lazy());
//! // let mut cart = CartClient::new(channel);
//! # fn is_a_channel<S: tonic::client::GrpcService<tonic::body::Body>>(_: S) {}
//! # is_a_channel(channel);
//! # Ok(()) }
//! ```

mod attempt_head;
mod layer;
mod overload;
mod service_builder;
mod tonic_body;

use reattempt::deadline::Deadline;
use reattempt::hedge::HedgeUnclaimed;
use reattempt::retry::Retry;
use reattempt_http::body::DeadlineBodyService;
use reattempt_http::call::{ExtendContext, InlineContext, ReplayCallBody};
use tower_layer::Identity;

use crate::message_limit::CallMessageLimit;
use crate::{AsGrpcStatus, GrpcClassifier, GrpcOutcome, GrpcTimeout, TonicStatus, WaitsForReady};
pub(crate) use attempt_head::AttemptHead;
pub use layer::GrpcClientLayer;
pub use service_builder::GrpcServiceBuilderExt;
pub use tonic_body::TonicBody;

/// A tonic channel with gRPC A6. Made by [`GrpcClientLayer`], for the name of a field: `R` are the
/// routes, such as `LiveServiceConfig`. Its error is a [`tonic::Status`]. With statistics or spans
/// the type is `<L as tower::Layer<S>>::Service`, where `L` is the type of the layer.
pub type GrpcClient<S, R> = PerCall<PerAttempt<Innermost<S>, Identity>, R>;

/// From the outside in: status, policy, deadlines, message limits, body buffer, recovery.
pub(crate) type PerCall<S, R> = TonicStatus<InlineContext<GrpcTimeout<Bounded<S>>, R>>;
type Bounded<S> =
    Deadline<DeadlineBodyService<CallMessageLimit<Recovery<S>>, AsGrpcStatus>, AsGrpcStatus>;
type Recovery<S> =
    ReplayCallBody<Retry<HedgeUnclaimed<ExtendContext<S>, GrpcClassifier>, GrpcClassifier>>;
/// What each attempt passes, down to the layers of telemetry.
pub(crate) type PerAttempt<S, A> =
    WaitsForReady<AttemptHead<<A as tower_layer::Layer<S>>::Service>>;
/// Below the layers of telemetry: the end of the stream, and tonic's own body.
pub(crate) type Innermost<S> = GrpcOutcome<TonicBody<S>>;
