//! An axum service that calls another service, with a policy for each route of that service.
//!
//! Its handlers contain no retry logic: they send one request and return the response. Reads are
//! hedged, a charge with an `Idempotency-Key` is retried as the other service asks, and calls
//! without a response end in time. What this service has retried in vain, its own callers need not
//! retry: its failures say so, in a header. Run with
//! `cargo run -p reattempt-examples --example axum_service`.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use reattempt::ClientError;
use reattempt_http::hop::{
    AttemptHeadersLayer, GaveUpLayer, Hop, ServerHopLayer, attempt_count, do_not_retry,
};
use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
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
    service: BoxCloneSyncService<Request<Full<Bytes>>, http::Response<Body>, ClientError<Error>>,
    uri: String,
}

impl Shop {
    fn new(uri: String, routes: LiveHttpPolicies) -> Self {
        let service = ServiceBuilder::new()
            .layer(BoxCloneSyncService::layer())
            .map_response(|answer: http::Response<_>| answer.map(Body::new))
            // For the callers of this service: whether this one has given up.
            .layer(GaveUpLayer)
            .layer(HttpClientLayer::policies(routes).body_timeout(Duration::from_millis(200)))
            // For the other service: the number of the attempt, and the time left.
            .layer(AttemptHeadersLayer::new())
            .service(Client::builder(TokioExecutor::new()).build_http());
        Self { service, uri }
    }

    async fn send(
        &self,
        hop: Hop,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Response, NoAnswer> {
        let mut request = request.body(Full::new(body))?;
        hop.pass_on(&mut request);
        Ok(self.service.clone().oneshot(request).await?)
    }
}

/// The response to the caller if the other service did not respond.
struct NoAnswer(StatusCode, String);

impl From<ClientError<Error>> for NoAnswer {
    fn from(error: ClientError<Error>) -> Self {
        let status = match error {
            ClientError::Elapsed(_) => StatusCode::GATEWAY_TIMEOUT,
            ClientError::Transport(_) => StatusCode::BAD_GATEWAY,
            // Refused: nothing was sent.
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, format!("{error}\n"))
    }
}

impl From<http::Error> for NoAnswer {
    fn from(error: http::Error) -> Self {
        Self(StatusCode::BAD_REQUEST, format!("{error}\n"))
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

async fn item(
    State(shop): State<Shop>,
    Extension(hop): Extension<Hop>,
    Path(item): Path<String>,
) -> Result<Response, NoAnswer> {
    let request = Request::get(format!("{}/stock/{item}", shop.uri));
    shop.send(hop, request, Bytes::new()).await
}

async fn order(
    State(shop): State<Shop>,
    Extension(hop): Extension<Hop>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, NoAnswer> {
    let mut request = Request::post(format!("{}/charges", shop.uri));
    // The charge uses the caller's key: one order is one charge, however often both are sent.
    if let Some(key) = headers.get(KEY) {
        request = request.header(KEY, key);
    }
    shop.send(hop, request, body).await
}

async fn report(
    State(shop): State<Shop>,
    Extension(hop): Extension<Hop>,
) -> Result<Response, NoAnswer> {
    let request = Request::get(format!("{}/report", shop.uri));
    shop.send(hop, request, Bytes::new()).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The other service: its first read hangs, charges succeed the third time, reports never end.
    let other = Server::start(Script::handler({
        let (reads, charges) = (Count::default(), Count::default());
        move |request| match request.path.as_str() {
            "/stock/7" if reads.next() == 0 => Step::hang(),
            "/stock/7" => Step::status(200).body("12 left\n"),
            "/stock/8" => Step::hang(),
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
        .with_state(Shop::new(other.uri(), routes.clone()))
        .layer(ServerHopLayer::new());
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
        let marked = do_not_retry(answer.headers()).map(str::to_owned);
        let body = answer.into_body().collect().await;
        let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        println!("{method} {path}: {status} {body:?}, do not retry: {marked:?}");
        Ok((status, body, marked))
    };

    let (status, body, _) = call("GET", "/items/7", None).await?;
    assert_eq!((status, body?.as_str()), (200, "12 left\n"));
    let (status, body, _) = call("POST", "/orders", Some("\"order-1\"")).await?;
    assert_eq!((status, body?.as_str()), (201, "charged\n"));
    let seen = other.seen();
    let charges = seen.iter().filter(|seen| seen.path == "/charges");
    let attempts: Vec<_> = charges.map(|seen| attempt_count(&seen.headers)).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3)]);

    // The response had begun: the caller gets a body that breaks off in time.
    let (status, body, _) = call("GET", "/report", None).await?;
    assert!(status == 200 && body.is_err());

    // The table is replaced while the service runs: from now on a read has a tenth of a second.
    routes.update(&POLICIES.replace(
        r#""budgetPercent": 10}, "timeout": "2s""#,
        r#""budgetPercent": 10}, "timeout": "0.1s""#,
    ))?;
    // Its budget of hedges is spent. So nothing was sent twice, and the caller may try again.
    let (status, body, marked) = call("GET", "/items/8", None).await?;
    assert_eq!((status, marked.as_deref()), (504, None));
    assert!(body?.contains("100ms"));

    other.stop().await;
    let (status, _, marked) = call("POST", "/orders", None).await?;
    assert_eq!((status, marked.as_deref()), (502, Some("attempts")));
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
