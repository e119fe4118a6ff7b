//! HTTP policies.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use rand::Rng;
use rand::rngs::SmallRng;
use reattempt::record::{Form, Recorder};
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_http::{HttpClassifier, HttpPolicies, HttpPushback};
use reattempt_lab::PolicyText;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

use super::{Chance, Wire, fate};

async fn serve(chance: Chance) -> Result<Response<Bytes>, BoxError> {
    let answer = |status: u16| Response::builder().status(status);
    let lost = |kind| Err(io::Error::from(kind).into());
    let answer = match fate(&chance).await {
        0..60 => answer(200),
        60..75 => answer(503),
        75..80 => answer(500),
        80..83 => answer(503).header("retry-after-ms", "35"),
        83..86 => answer(429).header("retry-after", "1"),
        86..88 => answer(404),
        88..90 => answer(503).header("retry-after", "nonsense"),
        90..95 => return lost(io::ErrorKind::ConnectionReset),
        95..98 => return lost(io::ErrorKind::ConnectionRefused),
        _ => std::future::pending().await,
    };
    Ok(answer.body(Bytes::new())?)
}

fn stack(
    policy: &str,
    recorder: &Recorder,
    chance: Chance,
) -> BoxCloneSyncService<Request<Bytes>, Response<Bytes>, BoxError> {
    let policies = HttpPolicies::parse(policy).unwrap().policies;
    let observer = Arc::new(recorder.clone());
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(policies))
        .layer(DeadlineLayer::no_timeout())
        .map_err(BoxError::from)
        .layer(
            RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard())
                .observer(observer.clone()),
        )
        .layer(HedgeLayer::by_policy(HttpClassifier::new()).observer(observer))
        .layer(DeadlineLayer::no_timeout())
        .map_err(BoxError::from)
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service(tower::service_fn(move |_: Request<Bytes>| {
            serve(Arc::clone(&chance))
        }));
    BoxCloneSyncService::new(stack)
}

fn request(chance: &mut SmallRng) -> Request<Bytes> {
    let method = ["GET", "GET", "POST"][chance.random_range(0..3)];
    let request = Request::builder().method(method).uri("http://a/");
    request.body(Bytes::new()).unwrap()
}

fn wire(policy: &Value) -> Wire<Request<Bytes>, Response<Bytes>> {
    Wire {
        form: Form::HttpPolicy,
        policy: policy.to_string(),
        stack,
        request,
        never: PolicyText::HttpPolicy(r#"{"default": {}}"#.to_owned()),
    }
}

async fn is_the_same(name: &str, policy: Value) {
    wire(&policy).is_replayed_as_it_was(name).await;
}

#[tokio::test(start_paused = true)]
async fn retries_with_a_throttle_are_replayed_as_they_were() {
    is_the_same(
        "retries",
        json!({
            "default": {"retry": {"maxAttempts": 4, "backoff": {"initial": "0.02s"}}, "throttle": "t",
                "timeout": "0.9s", "attemptTimeout": "0.3s"},
            "throttles": {"t": {"maxTokens": 100, "tokenRatio": 0.3}}
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn hedges_with_a_budget_are_replayed_as_they_were() {
    is_the_same(
        "hedges",
        json!({"default": {"hedge": {"maxAttempts": 3, "delay": "0.0305s", "budgetPercent": 20},
            "timeout": "0.5s"}}),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn learned_hedge_delays_are_replayed_nearly_as_they_were() {
    let policy = json!({
        "routes": [{"match": {"methods": ["GET"]}, "hedge": {"maxAttempts": 3, "extraLoadPercent": 8},
            "timeout": "0.5s"}],
        "default": {"hedge": {"delay": {"percentile": 90}, "budgetPercent": 10}, "timeout": "0.5s"}
    });
    // A delay that holds hedges back is asked at instants that are not recorded.
    wire(&policy).is_replayed("learned", 0.95).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_budget_and_a_spread_are_replayed_as_they_were() {
    is_the_same(
        "budget",
        json!({
            "default": {"retry": {"maxAttempts": 5, "backoff": {"initial": "0.05s", "max": "1s",
                "jitter": "decorrelated"}, "onDeadline": "cap"}, "retryAfter": {"spread": "0.2s"},
                "throttle": "t", "timeout": "2s"},
            "throttles": {"t": {"retryRatio": 0.2, "window": "2s"}}
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_quota_of_a_preset_is_replayed_as_it_was() {
    is_the_same(
        "quota",
        json!({"default": {"retry": {"preset": "aws-standard-2.1"}, "timeout": "10s"}}),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn routes_with_policies_of_their_own_are_replayed() {
    is_the_same(
        "routes",
        json!({
            "routes": [
                {"name": "reads", "match": {"methods": ["GET"]},
                    "hedge": {"maxAttempts": 2, "delay": "0.05s"}, "throttle": "t", "timeout": "0.7s"}
            ],
            "default": {"retry": {"maxAttempts": 3, "backoff": {"jitter": "proportional"},
                "safeStatuses": [503]}, "throttle": "t"},
            "throttles": {"t": {"maxTokens": 20, "tokenRatio": 1}}
        }),
    )
    .await;
}
