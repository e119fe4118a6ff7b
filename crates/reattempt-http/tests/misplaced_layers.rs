//! Missing or misplaced layers are logged once, at WARN.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use reattempt::strategy::RetryOnce;
use reattempt::{DeadlineLayer, RetryLayer, RouteLayer, RoutePolicy, ThrottleLayer, TokenBucket};
use reattempt_http::HttpPolicies;
use reattempt_http::body::ReplayBody;
use reattempt_http::body::{DeadlineBodyLayer, OutcomeBodyLayer};
use reattempt_http::hop::{AttemptHeadersLayer, GaveUpLayer};
use reattempt_http::{HttpClassifier, HttpClientLayer, IdempotencyKeyLayer, LiveHttpPolicies};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};

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
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    assert!(warnings[0].starts_with("AttemptHeadersLayer is outside of any recovery layer"));
    assert!(warnings[1].starts_with("OutcomeBodyLayer is outside of any recovery layer"));
    assert!(warnings[2].starts_with("DeadlineBodyLayer is not inside a DeadlineLayer"));
    assert!(warnings[3].starts_with("IdempotencyKeyLayer is inside the recovery layer"));
    assert!(warnings[4].starts_with("GaveUpLayer is inside the recovery layer"));
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
    assert_eq!(listener.warnings(), [""; 0]);
}

type Sent = Request<ReplayBody<Full<Bytes>>>;

async fn fails(_: Sent) -> Result<Response<Full<Bytes>>, BoxError> {
    Ok(Response::builder().status(503).body(Full::default())?)
}

/// As `send_with` makes one for each call, because each brings its client.
#[tokio::test(start_paused = true)]
async fn services_of_one_client_layer_warn_once() {
    let listener = listen::listen();
    let layer = HttpClientLayer::standard().classifier(HttpClassifier::new().judge_bodies());
    for _ in 0..3 {
        let works = service_fn(|_: Sent| async {
            Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("all of it")))
        });
        let request = Request::get("http://h/").body(Full::default()).unwrap();
        layer.layer(works).oneshot(request).await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("RetryLayer got a response that ends later"));
}

#[tokio::test(start_paused = true)]
async fn a_client_layer_is_in_order_on_every_route() {
    let listener = listen::listen();
    let table = r#"{"routes": [
        {"match": {"path": "/retried"}, "timeout": "5s", "attemptTimeout": "1s",
            "retry": {"maxAttempts": 2, "backoff": {"initial": "0.01s", "max": "1s"}}},
        {"match": {"path": "/hedged"}, "hedge": {"maxAttempts": 2, "delay": "0.05s"}},
        {"match": {"path": "/limited"}, "timeout": "5s"},
        {"match": {"path": "/keyed"}, "idempotencyKey": true}
    ]}"#;
    let table = HttpPolicies::parse(table).unwrap();
    let layer = HttpClientLayer::policies(LiveHttpPolicies::new(table.policies));
    for path in ["/retried", "/hedged", "/limited", "/keyed", "/other"] {
        for method in ["GET", "POST"] {
            let request = Request::builder()
                .method(method)
                .uri(format!("http://h{path}"));
            let request = request.header("idempotency-key", "k");
            let request = request.body(Full::from("one loaf")).unwrap();
            let service = layer.layer(service_fn(fails));
            service.oneshot(request).await.unwrap();
        }
    }
    let about_layers = |line: &String| line.contains("Layer");
    let warnings = listener.warnings();
    assert!(!warnings.iter().any(about_layers), "{warnings:?}");
}
