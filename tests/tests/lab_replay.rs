//! What-if replay: thousands of calls go through the real layers on paused time and are recorded;
//! the lab then finds every one of their decisions under the policy that they ran under.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reattempt::record::{Form, Options, Recorder};
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_http::{HttpClassifier, HttpPolicies, HttpPushback};
use reattempt_lab::replay::Replay;
use reattempt_lab::{Limits, PolicyText};
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// A file of this test, which is removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("reattempt-{name}-{}.rec", std::process::id())))
    }

    fn read(&self) -> Replay {
        let bytes = std::fs::read(&self.0).unwrap();
        Replay::read(&[bytes]).unwrap_or_else(|damages| panic!("{damages:?}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server on a bad day.
async fn serve(random: &Mutex<SmallRng>) -> Result<Response<Bytes>, BoxError> {
    let (takes, fate) = {
        let mut random = random.lock().unwrap();
        let tail = if random.random_bool(0.1) { 400 } else { 40 };
        (
            random.random_range(0..tail * 1000),
            random.random_range(0..100),
        )
    };
    tokio::time::sleep(Duration::from_micros(takes)).await;
    let answer = |status: u16| Response::builder().status(status);
    let lost = |kind| Err(io::Error::from(kind).into());
    let answer = match fate {
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

/// The calls of `seconds`, through the layers in their documented order.
async fn record(policy: &str, seconds: u64, scratch: &Scratch) -> u64 {
    let policies = HttpPolicies::parse(policy).unwrap().policies;
    let options = Options::new().policy(Form::HttpPolicy, policy);
    let recorder = Recorder::create(&scratch.0, options).unwrap();
    let random = Arc::new(Mutex::new(SmallRng::seed_from_u64(7)));
    let server = Arc::clone(&random);
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(policies))
        .layer(DeadlineLayer::unlimited())
        .map_err(BoxError::from)
        .layer(
            RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard())
                .observer(Arc::new(recorder.clone())),
        )
        .layer(HedgeLayer::by_policy(HttpClassifier::new()).observer(Arc::new(recorder.clone())))
        .layer(DeadlineLayer::unlimited())
        .map_err(BoxError::from)
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service(tower::service_fn(move |_: Request<Bytes>| {
            let random = Arc::clone(&server);
            async move { serve(&random).await }
        }));
    let stack = BoxCloneSyncService::new(stack);
    let mut calls = tokio::task::JoinSet::new();
    let until = tokio::time::Instant::now() + Duration::from_secs(seconds);
    while tokio::time::Instant::now() < until {
        let (pause, method, patience) = {
            let mut random = random.lock().unwrap();
            let method = ["GET", "GET", "POST"][random.random_range(0..3)];
            let patience = if random.random_bool(0.1) { 30 } else { 60_000 };
            (random.random_range(0..10), method, patience)
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let request = Request::builder().method(method).uri("http://a/");
        let request = request.body(Bytes::new()).unwrap();
        let mut stack = stack.clone();
        calls.spawn(async move {
            let call = async { stack.ready().await?.call(request).await };
            // Some callers lose their patience and drop the call.
            let _ = tokio::time::timeout(Duration::from_millis(patience), call).await;
        });
    }
    calls.join_all().await;
    let status = recorder.finish();
    assert_eq!(status.lost, 0);
    status.written
}

async fn is_the_same(name: &str, policy: Value) {
    let scratch = Scratch::new(name);
    let written = record(&policy.to_string(), 20, &scratch).await;
    let replay = scratch.read();
    assert_eq!(replay.recording().entries.len() as u64, written);
    assert!(replay.calls() > 3000 && replay.incomplete() == 0);
    let own = replay.own_policy().unwrap().unwrap();
    let decisions = replay.decisions(&own).unwrap();
    assert!(decisions.of > 1000, "{decisions:?}");
    assert_eq!(decisions.same, decisions.of, "{name}: {decisions:?}");
    let recorded = replay.recorded();
    let again = replay.what_if(&own, 3, &Limits::default()).unwrap();
    assert_eq!(recorded.calls, again.calls);
    let near = |a: f64, b: f64, most: f64| (a - b).abs() < most;
    assert!(
        near(recorded.success, again.success, 0.02),
        "{recorded:?} {again:?}"
    );
    let (load, load_again) = (recorded.amplification, again.amplification);
    assert!(near(load, load_again, 0.05), "{recorded:?} {again:?}");
    let never = PolicyText::HttpPolicy(r#"{"default": {}}"#.to_owned());
    let other = replay.decisions(&never).unwrap();
    assert!(other.same < other.of && other.first.is_some(), "{other:?}");
    let alone = replay.what_if(&never, 3, &Limits::default()).unwrap();
    assert_eq!(alone.attempts, alone.calls, "nothing is sent again");
    assert!(alone.success < recorded.success, "{alone:?} {recorded:?}");
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
