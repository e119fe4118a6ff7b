//! Missing or misplaced layers are logged once, at WARN.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use reattempt::strategy::RetryOnce;
use reattempt::{DeadlineLayer, RetryLayer, RouteLayer, RoutePolicy, ThrottleLayer, TokenBucket};
use reattempt_http::body::{DeadlineBodyLayer, OutcomeBodyLayer};
use reattempt_http::hop::{AttemptHeadersLayer, GaveUpLayer};
use reattempt_http::{HttpClassifier, IdempotencyKeyLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use reattempt::test_util as listen;

async fn works(_: Request<()>) -> Result<Response<Full<Bytes>>, BoxError> {
    Ok(Response::new(Full::from("all of it")))
}

fn request() -> Request<()> {
    let request = Request::post("http://h/orders").header("idempotency-key", "k");
    request.body(()).unwrap()
}

fn bucket() -> ThrottleLayer {
    ThrottleLayer::new(Arc::new(TokenBucket::new(10, 100).unwrap()))
}

fn judging() -> RetryLayer<HttpClassifier> {
    RetryLayer::new(HttpClassifier::new().judge_bodies(), RetryOnce)
}

/// The classifier logs once per process, so one test covers both cases.
#[tokio::test(start_paused = true)]
async fn a_throttle_that_would_hear_of_failures_only_is_warned_of() {
    let listener = listen::listen();
    let right = ServiceBuilder::new()
        .layer(bucket())
        .layer(judging())
        .layer(OutcomeBodyLayer::new())
        .service_fn(works);
    right.oneshot(request()).await.unwrap();
    let plain = ServiceBuilder::new()
        .layer(bucket())
        .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
        .service_fn(works);
    plain.oneshot(request()).await.unwrap();
    assert_eq!(listener.heard(), [""; 0], "correct order");

    let missing = ServiceBuilder::new()
        .layer(bucket())
        .layer(judging())
        .service_fn(works);
    for _ in 0..3 {
        missing.clone().oneshot(request()).await.unwrap();
    }
    let heard = listener.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("HttpStatus::judge_bodies leaves answers open"));
    assert!(heard[0].contains("OutcomeBodyLayer below the recovery layer"));
}

#[tokio::test(start_paused = true)]
async fn layers_in_wrong_places_say_so_once() {
    let listener = listen::listen();
    let policy = Arc::new(RoutePolicy::new("orders").with_timeout(Duration::from_secs(1)));
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(policy))
        .layer(AttemptHeadersLayer::new())
        .layer(OutcomeBodyLayer::new())
        .layer(DeadlineBodyLayer::new())
        .layer(DeadlineLayer::new(Duration::from_secs(9)))
        .layer(RetryLayer::new(HttpClassifier::new(), RetryOnce))
        .layer(IdempotencyKeyLayer::new())
        .layer(GaveUpLayer)
        .service_fn(works);
    for _ in 0..3 {
        service.clone().oneshot(request()).await.unwrap();
    }
    let heard = listener.heard();
    assert_eq!(heard.len(), 5, "{heard:?}");
    assert!(heard[0].starts_with("AttemptHeadersLayer is outside of any recovery layer"));
    assert!(heard[1].starts_with("OutcomeBodyLayer is outside of any recovery layer"));
    assert!(heard[2].starts_with("DeadlineBodyLayer is not inside a DeadlineLayer"));
    assert!(heard[3].starts_with("IdempotencyKeyLayer is inside the recovery layer"));
    assert!(heard[4].starts_with("GaveUpLayer is inside the recovery layer"));
}

#[tokio::test(start_paused = true)]
async fn layers_in_their_places_say_nothing() {
    let listener = listen::listen();
    let service = ServiceBuilder::new()
        .layer(GaveUpLayer)
        .layer(DeadlineLayer::new(Duration::from_secs(9)))
        .layer(DeadlineBodyLayer::new())
        .layer(IdempotencyKeyLayer::new())
        .layer(bucket())
        .layer(judging())
        .layer(AttemptHeadersLayer::new())
        .layer(OutcomeBodyLayer::new())
        .service_fn(works);
    service.oneshot(request()).await.unwrap();
    assert_eq!(listener.heard(), [""; 0]);
}
