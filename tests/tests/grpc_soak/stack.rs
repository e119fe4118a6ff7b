//! The documented stack, with an attempt deadline and two witnesses.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::Randomness;
use reattempt::{
    DeadlineLayer, HedgeLayer, HedgePolicy, PushbackLayer, RetryLayer, RouteLayer, Routes,
};
use reattempt_grpc::service_config::{Options, ServiceConfig};
use reattempt_grpc::{
    AsGrpcStatus, ByTransportError, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback,
    GrpcTimeoutLayer, PreviousAttemptsLayer,
};
use reattempt_http::body::{BufferBudget, DeadlineBodyLayer, ReplayBodyLayer};
use tower::layer::layer_fn;
use tower::{Service, ServiceBuilder};

use super::BYTES_PER_CALL;
use super::transport::{Broken, attempt};
use super::upload::Upload;
use super::witness::Watched;
use super::words::{Method, Recovery};
use super::world::World;

pub(crate) const MAX_TOKENS: u64 = 10;
/// `tokenRatio` has more than three decimal places, which are cut.
pub(crate) const MILLI_RATIO: u64 = 1733;

/// The timeout of an attempt, up to its head.
pub(crate) const ATTEMPT_LIMIT: Duration = Duration::from_millis(70);

/// The same values as the service config below.
pub(crate) static METHODS: [Method; 5] = [
    Method {
        path: "/soak.S/Retry",
        recovery: Recovery::Retry {
            most: 4,
            first_ms: 10,
            longest_ms: 30,
        },
        codes: &[14, 4, 8],
        timeout_ms: None,
    },
    Method {
        path: "/soak.S/Brief",
        recovery: Recovery::Retry {
            most: 5,
            first_ms: 20,
            longest_ms: 5,
        },
        codes: &[14, 13],
        timeout_ms: Some(80),
    },
    Method {
        path: "/soak.S/Hedge",
        recovery: Recovery::Hedge {
            most: 4,
            delay_ms: 15,
        },
        codes: &[14, 4, 2],
        timeout_ms: Some(200),
    },
    Method {
        path: "/soak.S/Burst",
        recovery: Recovery::Hedge {
            most: 3,
            delay_ms: 0,
        },
        codes: &[14, 1],
        timeout_ms: None,
    },
    Method {
        path: "/soak.S/Plain",
        recovery: Recovery::None,
        codes: &[],
        timeout_ms: None,
    },
];

/// The service config, with jitter from this seed.
pub(crate) fn config(seed: u64) -> ServiceConfig {
    let text = r#"{
        "methodConfig": [
            {"name": [{"service": "soak.S", "method": "Retry"}],
             "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.03s", "backoffMultiplier": 2,
                             "retryableStatusCodes": ["UNAVAILABLE", 4, "resource_exhausted"]}},
            {"name": [{"service": "soak.S", "method": "Brief"}], "timeout": "0.08s",
             "retryPolicy": {"maxAttempts": 50, "initialBackoff": "0.02s", "maxBackoff": "0.005s", "backoffMultiplier": 2,
                             "retryableStatusCodes": [14, 13]}},
            {"name": [{"service": "soak.S", "method": "Hedge"}], "timeout": "0.2s",
             "hedgingPolicy": {"maxAttempts": 4, "hedgingDelay": "0.015s", "nonFatalStatusCodes": [14, 4, "UNKNOWN"]}},
            {"name": [{"service": "soak.S", "method": "Burst"}],
             "hedgingPolicy": {"maxAttempts": 3, "nonFatalStatusCodes": [14, 1]}}
        ],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 1.7339}
    }"#;
    let options = Options::new().randomness(Randomness::seeded(seed));
    ServiceConfig::parse_with(text, &options).expect("a service config")
}

/// The stack of reattempt-grpc's docs. A witness stands between the recovery layers and the attempt
/// deadline.
pub(crate) fn stack(
    world: &Arc<World>,
    budget: &BufferBudget,
    config: &Routes<ServiceConfig>,
) -> impl Service<
    Request<Upload>,
    Response = Response<impl http_body::Body<Data = bytes::Bytes, Error = Broken> + Send + use<>>,
    Error = Broken,
    Future: Send,
> + Clone
+ Send
+ use<> {
    let (watching, world) = (Arc::clone(world), Arc::clone(world));
    ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(
            ReplayBodyLayer::new()
                .bytes_per_call(BYTES_PER_CALL)
                .budget(budget.clone()),
        )
        .layer(RetryLayer::by_policy(GrpcClassifier::new()))
        .layer(HedgeLayer::new(
            GrpcClassifier::new(),
            HedgePolicy::new(1, Duration::ZERO),
        ))
        .layer(layer_fn(move |inner| Watched {
            inner,
            world: Arc::clone(&watching),
        }))
        .layer(DeadlineLayer::new(ATTEMPT_LIMIT).on_elapsed(AsGrpcStatus))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
        .service_fn(move |request| attempt(Arc::clone(&world), request))
}
