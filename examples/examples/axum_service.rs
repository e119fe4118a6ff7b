//! An axum service that calls another service, with a policy for each route of that service.
//!
//! Its handlers contain no retry logic: they send one request and return the response. Reads are
//! hedged, a charge with an `Idempotency-Key` is retried as the other service asks, and calls
//! without a response end in time. Run with
//! `cargo run -p reattempt-examples --example axum_service`.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, Elapsed, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_http::{
    AnyTransportError, HttpClassifier, HttpPolicies, HttpPushback, IdempotencyKeyLayer,
    LiveHttpPolicies,
};
use reattempt_testbed::http::{Script, Server, Step};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

const POLICIES: &str = r#"{
  "routes": [
    { "name": "stock",
      "match": {"methods": ["GET"], "pattern": "/stock/{item}"},
      "hedge": {"maxAttempts": 2, "delay": "0.05s", "budgetPercent": 10}, "timeout": "2s" },
    { "name": "charges",
      "match": {"methods": ["POST"], "path": "/charges"},
      "retry": {"maxAttempts": 3, "backoff": {"initial": "0.02s", "max": "0.2s"}},
      "retryAfter": {"cap": "1s", "spread": "0.01s"},
      "idempotencyKey": true, "timeout": "2s" }
  ],
  "default": {"timeout": "0.2s"}
}"#;

/// The other service, as handlers see it.
#[derive(Clone)]
struct Shop {
    service: BoxCloneSyncService<Request<Full<Bytes>>, http::Response<Body>, AnyTransportError>,
    uri: String,
}

impl Shop {
    fn new(uri: String, routes: LiveHttpPolicies) -> Self {
        let service = ServiceBuilder::new()
            .map_response(|answer: http::Response<_>| answer.map(Body::new))
            .layer(RouteLayer::new(routes))
            .layer(IdempotencyKeyLayer::new().by_policy())
            // The time limit covers the response body too.
            .layer(DeadlineLayer::unlimited())
            .layer(DeadlineBodyLayer::new())
            .layer(ReplayBodyLayer::new())
            .layer(RetryLayer::new(
                HttpClassifier::new(),
                MaxAttempts::standard(),
            ))
            .layer(HedgeLayer::by_policy(HttpClassifier::new()))
            .layer(PushbackLayer::new(HttpPushback::new()))
            .map_err(AnyTransportError::new)
            .service(Client::builder(TokioExecutor::new()).build_http());
        Self {
            service: BoxCloneSyncService::new(service),
            uri,
        }
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Response, NoAnswer> {
        let request = request
            .body(Full::new(body))
            .map_err(AnyTransportError::new);
        let answer = self.service.clone().oneshot(request?).await?;
        Ok(answer.into_response())
    }
}

/// The response to the caller if the other service did not respond.
struct NoAnswer(AnyTransportError);

impl From<AnyTransportError> for NoAnswer {
    fn from(error: AnyTransportError) -> Self {
        Self(error)
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        let error = self.0.into_inner();
        let status = if error.is::<Elapsed>() {
            StatusCode::GATEWAY_TIMEOUT
        } else {
            StatusCode::BAD_GATEWAY
        };
        (status, format!("{error}\n")).into_response()
    }
}

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

async fn item(State(shop): State<Shop>, Path(item): Path<String>) -> Result<Response, NoAnswer> {
    let request = Request::get(format!("{}/stock/{item}", shop.uri));
    shop.send(request, Bytes::new()).await
}

async fn order(
    State(shop): State<Shop>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, NoAnswer> {
    let mut request = Request::post(format!("{}/charges", shop.uri));
    // The charge uses the caller's key: one order is one charge, however often both are sent.
    if let Some(key) = headers.get(KEY) {
        request = request.header(KEY, key);
    }
    shop.send(request, body).await
}

async fn report(State(shop): State<Shop>) -> Result<Response, NoAnswer> {
    shop.send(Request::get(format!("{}/report", shop.uri)), Bytes::new())
        .await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The other service: its first read hangs, charges succeed the third time, reports never end.
    let other = Server::start(Script::handler({
        let (reads, charges) = (Count::default(), Count::default());
        move |request| match request.path.as_str() {
            "/stock/7" if reads.next() == 0 => Step::hang(),
            "/stock/7" => Step::status(200).body("12 left\n"),
            "/charges" => match charges.next() {
                0 => Step::close_before(),
                1 => Step::status(503).header("retry-after-ms", "20"),
                _ => Step::status(201).body("charged\n"),
            },
            _ => Step::hang_during_body(5),
        }
    }))
    .await?;

    let routes = LiveHttpPolicies::new(HttpPolicies::parse(POLICIES)?.policies);
    let app = Router::new()
        .route("/items/{item}", get(item))
        .route("/orders", post(order))
        .route("/report", get(report))
        .with_state(Shop::new(other.uri(), routes));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    // A client of this service.
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let call = async |method: &str, path: &str, key: Option<&str>| -> Result<_, BoxError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{address}{path}"));
        if let Some(key) = key {
            request = request.header(KEY, key);
        }
        let answer = client.request(request.body(Full::from("{}"))?).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await;
        let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        println!("{method} {path}: {status} {body:?}");
        Ok((status, body))
    };

    let (status, body) = call("GET", "/items/7", None).await?;
    assert_eq!((status, body?.as_str()), (200, "12 left\n"));
    let (status, body) = call("POST", "/orders", Some("\"order-1\"")).await?;
    assert_eq!((status, body?.as_str()), (201, "charged\n"));
    let charges = other
        .seen()
        .into_iter()
        .filter(|seen| seen.path == "/charges");
    assert_eq!(charges.count(), 3);

    // The response had begun: the caller gets a body that breaks off in time.
    let (status, body) = call("GET", "/report", None).await?;
    assert!(status == 200 && body.is_err());

    other.stop().await;
    let (status, _) = call("GET", "/items/7", None).await?;
    assert_eq!(status, 502);
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
