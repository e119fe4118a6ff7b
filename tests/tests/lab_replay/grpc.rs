//! Service configs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use rand::Rng;
use rand::rngs::SmallRng;
use reattempt::backoff::Backoff;
use reattempt::record::{Form, Recorder};
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, HedgeLayer, OnDeadline, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, CodeSet, GRPC_STATUS, GrpcClassifier, GrpcPushback, RETRY_PUSHBACK_MS,
};
use reattempt_lab::PolicyText;
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

use super::{Chance, Wire, fate};

async fn serve(chance: Chance) -> io::Result<Response<Bytes>> {
    let answer = |code: u16, pushback: Option<&str>| {
        let mut answer = Response::builder().header(GRPC_STATUS, code);
        if let Some(pushback) = pushback {
            answer = answer.header(RETRY_PUSHBACK_MS, pushback);
        }
        Ok(answer.body(Bytes::new()).unwrap())
    };
    match fate(&chance).await {
        0..60 => answer(0, None),
        60..75 => answer(14, None),
        75..79 => answer(8, None),
        79..82 => answer(14, Some("35")),
        82..84 => answer(14, Some("-1")),
        84..86 => answer(14, Some("nonsense")),
        86..90 => answer(5, None),
        90..95 => Err(io::ErrorKind::ConnectionReset.into()),
        95..98 => Err(io::ErrorKind::ConnectionRefused.into()),
        _ => std::future::pending().await,
    }
}

fn stack(
    policy: &str,
    recorder: &Recorder,
    chance: Chance,
) -> BoxCloneSyncService<Request<Bytes>, Response<Bytes>, BoxError> {
    let classifier = GrpcClassifier::new().retryable(CodeSet::EMPTY);
    let never = MaxAttempts::new(1, Backoff::constant(Duration::ZERO)).on_deadline(OnDeadline::Cap);
    let observer = Arc::new(recorder.clone());
    let stack = ServiceBuilder::new()
        .map_err(BoxError::from)
        .layer(RouteLayer::new(ServiceConfig::parse(policy).unwrap()))
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(RetryLayer::new(classifier, never).observer(observer.clone()))
        .layer(HedgeLayer::by_policy(classifier).observer(observer))
        .layer(PushbackLayer::new(GrpcPushback))
        .service(tower::service_fn(move |_: Request<Bytes>| {
            serve(Arc::clone(&chance))
        }));
    BoxCloneSyncService::new(stack)
}

fn request(chance: &mut SmallRng) -> Request<Bytes> {
    let method = ["/a.B/Get", "/a.B/List", "/c.D/Put"][chance.random_range(0..3)];
    let request = Request::builder().method("POST").uri(method);
    request.body(Bytes::new()).unwrap()
}

async fn is_the_same(name: &str, policy: Value) {
    let wire = Wire {
        form: Form::ServiceConfig,
        policy: policy.to_string(),
        stack,
        request,
        never: PolicyText::ServiceConfig("{}".to_owned()),
    };
    wire.is_replayed_as_it_was(name).await;
}

#[tokio::test(start_paused = true)]
async fn grpc_retries_with_a_throttle_are_replayed_as_they_were() {
    is_the_same(
        "grpc-retries",
        json!({
            "methodConfig": [
                {"name": [{"service": "a.B", "method": "Get"}], "timeout": "0.9s", "retryPolicy": {
                    "maxAttempts": 4, "initialBackoff": "0.02s", "maxBackoff": "1s",
                    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}},
                {"name": [{}], "timeout": "2s", "retryPolicy": {
                    "maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "0.3s",
                    "backoffMultiplier": 1.5,
                    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}},
            ],
            "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.6}
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn grpc_hedges_with_a_throttle_are_replayed_as_they_were() {
    is_the_same(
        "grpc-hedges",
        json!({
            "methodConfig": [{"name": [{}], "timeout": "0.7s", "hedgingPolicy": {
                "maxAttempts": 3, "hedgingDelay": "0.0305s",
                "nonFatalStatusCodes": ["UNAVAILABLE"]}}],
            "retryThrottling": {"maxTokens": 50, "tokenRatio": 0.8}
        }),
    )
    .await;
}
