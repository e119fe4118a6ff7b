//! Policies of single routes from JSON: reads are hedged, orders with an `Idempotency-Key` are
//! retried, and the table is replaced while calls are running.
//!
//! Run with `cargo run -p reattempt-examples --example per_route_json`.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::{ClientError, RetryInfo};
use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, ServiceBuilder, ServiceExt};

const POLICIES: &str = r#"{
  "routes": [
    { "name": "reads",
      "match": {"methods": ["GET", "HEAD"], "prefix": "/items"},
      "hedge": {"maxAttempts": 2, "delay": "0.05s", "budgetPercent": 10},
      "timeout": "5s", "throttle": "backend" },
    { "name": "orders",
      "match": {"methods": ["POST"], "pattern": "/users/{id}/orders"},
      "retry": {"maxAttempts": 3, "backoff": {"initial": "0.01s", "max": "0.1s"}},
      "idempotencyKey": true, "bodyLimit": 65536,
      "retryAfter": {"cap": "2s", "beyondCap": "stop"},
      "timeout": "5s", "attemptTimeout": "2s", "throttle": "backend" }
  ],
  "default": {"timeout": "5s"},
  "throttles": {"backend": {"maxTokens": 10, "tokenRatio": 0.1}}
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // The first read hangs, and so does every report. The first order gets a Retry-After of 30 ms,
    // the second one that is too long.
    let server = Server::start(Script::handler({
        let (reads, orders) = (Count::default(), Count::default());
        move |request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/items/1") if reads.next() == 0 => Step::hang(),
            ("GET", "/report") => Step::hang(),
            ("POST", _) => match orders.next() {
                0 => Step::status(503).header("retry-after-ms", "30"),
                1 => Step::status(201),
                _ => Step::status(503).header("retry-after", "3600"),
            },
            _ => Step::status(200),
        }
    }))
    .await?;

    let parsed = HttpPolicies::parse(POLICIES)?;
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    let routes = LiveHttpPolicies::new(parsed.policies);

    let client = ServiceBuilder::new()
        .layer(HttpClientLayer::policies(routes.clone()))
        .service(Client::builder(TokioExecutor::new()).build_http());
    let send = async |method: &str, path: &str| {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", server.uri()))
            .header("idempotency-key", "\"8e03978e\"")
            .body(Full::<Bytes>::from("{}"))
            .expect("a request");
        let watch = RetryInfo::track(&mut request);
        let response = client.clone().oneshot(request).await?;
        let (status, info) = (response.status().as_u16(), watch.info());
        println!(
            "{method} {path}: {status} after {} attempt(s)",
            info.attempts()
        );
        Ok::<_, ClientError<_>>((status, info))
    };

    let (status, read) = send("GET", "/items/1").await?;
    assert_eq!((status, read.attempts()), (200, 2), "the hedge answered");

    let (status, order) = send("POST", "/users/7/orders").await?;
    assert_eq!((status, order.attempts()), (201, 2), "as the server asked");
    let asked = order.records().next().and_then(|record| record.delay);
    // Plus the preset's random spread.
    assert!(asked >= Some(Duration::from_millis(30)), "{asked:?}");

    let (status, order) = send("POST", "/users/7/orders").await?;
    assert_eq!(
        (status, order.attempts()),
        (503, 1),
        "an hour exceeds the cap"
    );

    // A text with faults changes nothing, and all faults are reported.
    let slip = POLICIES.replace("\"5s\"", "\"5m\"");
    let faults = routes.update(&slip).unwrap_err();
    for fault in faults.faults() {
        println!("  {fault}");
    }
    assert_eq!(faults.faults().len(), 3);

    // A valid one applies to new calls; the bucket keeps its fill fraction.
    routes.update(&POLICIES.replace(
        "\"default\": {\"timeout\": \"5s\"}",
        "\"default\": {\"timeout\": \"0.1s\"}",
    ))?;
    let error = send("GET", "/report").await.unwrap_err();
    println!("GET /report: {error}");
    let limit = error.elapsed().and_then(|elapsed| elapsed.timeout);
    assert_eq!(limit, Some(Duration::from_millis(100)));
    Ok(())
}

/// How often an endpoint was called.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicUsize);

impl Count {
    fn next(&self) -> usize {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}
