//! Policies from JSON in the documented stack, on paused time.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use reattempt::strategy::MaxAttempts;
use reattempt::{
    DeadlineLayer, Elapsed, HedgeLayer, PushbackLayer, RetryInfo, RetryLayer, RetryThrottle,
    RouteLayer, Stage, StopReason,
};
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use reattempt_http::{
    HttpClassifier, HttpPolicies, HttpPushback, IdempotencyKeyLayer, LiveHttpPolicies,
};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// How the server handles one attempt.
#[derive(Clone, Copy)]
enum Step {
    Status(u16),
    RetryAfter(u16, &'static str),
    Header(u16, &'static str, &'static str),
    /// The connection is refused.
    Refused,
    /// The connection fails while the request is in flight.
    Broken,
    Hang,
    Slow(Duration),
}

/// A scripted server that records when each request arrived, and its body.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Vec<Step>>>,
    seen: Arc<Mutex<Vec<(Duration, Bytes)>>>,
}

impl Server {
    fn will(&self, steps: &[Step]) {
        let mut script = self.script.lock().unwrap();
        script.clear();
        script.extend(steps.iter().rev());
        self.seen.lock().unwrap().clear();
    }

    fn times(&self) -> Vec<u128> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(at, _)| at.as_millis()).collect()
    }

    async fn serve(
        self,
        began: Instant,
        request: Request<ReplayBody<Full<Bytes>>>,
    ) -> Result<Response<&'static str>, BoxError> {
        let at = began.elapsed();
        let body = request.into_body().collect().await?.to_bytes();
        self.seen.lock().unwrap().push((at, body));
        let step = self.script.lock().unwrap().pop();
        let response = Response::builder();
        Ok(match step.unwrap_or(Step::Status(200)) {
            Step::Status(status) => response.status(status).body("")?,
            Step::RetryAfter(status, value) => {
                let response = response.status(status).header("retry-after", value);
                response.body("")?
            }
            Step::Header(status, name, value) => {
                response.status(status).header(name, value).body("")?
            }
            Step::Refused => return Err(io::Error::from(ErrorKind::ConnectionRefused).into()),
            Step::Broken => return Err(io::Error::from(ErrorKind::ConnectionReset).into()),
            Step::Slow(delay) => {
                tokio::time::sleep(delay).await;
                response.body("slow")?
            }
            Step::Hang => std::future::pending().await,
        })
    }
}

/// One call through the documented stack: its outcome, how long it took in milliseconds, and its
/// `RetryInfo`.
async fn call(
    routes: &LiveHttpPolicies,
    server: &Server,
    mut request: Request<Full<Bytes>>,
) -> (Result<u16, BoxError>, u128, RetryInfo) {
    let began = Instant::now();
    let server = server.clone();
    let mut client = ServiceBuilder::new()
        .layer(RouteLayer::new(routes.clone()))
        .layer(DeadlineLayer::unlimited())
        .layer(IdempotencyKeyLayer::new())
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .layer(HedgeLayer::by_policy(HttpClassifier::new()))
        .layer(DeadlineLayer::unlimited())
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service_fn(move |request| server.clone().serve(began, request));
    let watch = RetryInfo::track(&mut request);
    let client = client.ready().await.unwrap();
    let outcome = client.call(request).await;
    let outcome = outcome.map(|response| response.status().as_u16());
    (outcome, began.elapsed().as_millis(), watch.info())
}

fn routes(text: &str) -> LiveHttpPolicies {
    LiveHttpPolicies::new(HttpPolicies::parse(text).unwrap().policies)
}

fn request(method: Method, path: &str, body: &'static str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path);
    request.body(Full::from(body)).unwrap()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    request(Method::GET, path, "")
}

const ORDERS: &str = r#"{
    "routes": [
        {"name": "reads", "match": {"methods": ["GET"], "prefix": "/read"},
         "hedge": {"maxAttempts": 3, "delay": "0.02s", "statuses": [503], "budgetPercent": 50}},
        {"name": "orders", "match": {"methods": ["POST"], "pattern": "/users/{id}/orders"},
         "retry": {"maxAttempts": 4, "backoff": {"initial": "0.1s", "multiplier": 3, "max": "0.5s", "jitter": "none"},
                   "statuses": [500, 503]},
         "idempotencyKey": true, "bodyLimit": 8, "throttle": "backend"}
    ],
    "throttles": {"backend": {"maxTokens": 10, "tokenRatio": 0.5}}}"#;

#[tokio::test(start_paused = true)]
async fn a_hedged_route_hedges_within_its_budget() {
    let (routes, server) = (routes(ORDERS), Server::default());
    server.will(&[Step::Hang, Step::Status(200)]);
    let (outcome, took, info) = call(&routes, &server, get("/read/1")).await;
    assert_eq!((outcome.unwrap(), took, info.attempts()), (200, 20, 2));
    assert_eq!(server.times(), [0, 20]);

    // One of two calls may be hedged. The first hedge was free, and its call has earned half of
    // another.
    let slow = Duration::from_millis(100);
    server.will(&[Step::Slow(slow)]);
    let (_, took, info) = call(&routes, &server, get("/read/1")).await;
    assert_eq!((took, info.attempts()), (100, 1), "the budget refuses it");
    server.will(&[Step::Slow(slow), Step::Slow(slow)]);
    let (_, took, info) = call(&routes, &server, get("/read/1")).await;
    assert_eq!((took, info.attempts()), (100, 2), "and allows the next one");
}

#[tokio::test(start_paused = true)]
async fn a_non_fatal_status_sends_the_next_hedge() {
    let (routes, server) = (routes(ORDERS), Server::default());
    server.will(&[Step::Status(503), Step::Status(500)]);
    let (outcome, took, info) = call(&routes, &server, get("/read/1")).await;
    assert_eq!((outcome.unwrap(), took), (500, 0));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

#[tokio::test(start_paused = true)]
async fn a_post_with_a_key_is_retried_by_its_routes_backoff() {
    let (routes, server) = (routes(ORDERS), Server::default());
    let order = || request(Method::POST, "/users/7/orders", "order");
    server.will(&[Step::Status(503), Step::Status(500), Step::Status(503)]);
    let mut keyed = order();
    keyed
        .headers_mut()
        .insert("idempotency-key", "1".parse().unwrap());
    let (outcome, _, info) = call(&routes, &server, keyed).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (200, 4));
    assert_eq!(server.times(), [0, 100, 400, 900]);
    let bodies = server.seen.lock().unwrap().clone();
    assert!(bodies.iter().all(|(_, body)| body == "order"));

    server.will(&[Step::Status(503)]);
    let (outcome, _, info) = call(&routes, &server, order()).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (503, 1));
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn a_key_counts_only_where_the_route_says_so() {
    let routes = routes(r#"{"default": {"retry": {}}}"#);
    let server = Server::default();
    server.will(&[Step::Status(503)]);
    let mut keyed = request(Method::POST, "/", "order");
    keyed
        .headers_mut()
        .insert("idempotency-key", "1".parse().unwrap());
    let (outcome, _, info) = call(&routes, &server, keyed).await;
    assert_eq!(outcome.unwrap(), 503);
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn safe_statuses_are_retried_also_after_a_post() {
    let routes = routes(
        r#"{"default": {"retry": {"statuses": [503], "safeStatuses": [503], "backoff": {"jitter": "none"}}}}"#,
    );
    let server = Server::default();
    server.will(&[Step::Status(503)]);
    let (outcome, took, _) = call(&routes, &server, request(Method::POST, "/", "x")).await;
    assert_eq!((outcome.unwrap(), took), (200, 100));
    server.will(&[Step::Status(429)]);
    let (outcome, _, _) = call(&routes, &server, get("/")).await;
    assert_eq!(outcome.unwrap(), 429, "the list replaces the default");
}

#[tokio::test(start_paused = true)]
async fn a_body_past_the_routes_limit_is_sent_once() {
    let (routes, server) = (routes(ORDERS), Server::default());
    server.will(&[Step::Status(503)]);
    let mut long = request(Method::POST, "/users/7/orders", "nine bytes");
    long.headers_mut()
        .insert("idempotency-key", "1".parse().unwrap());
    let (outcome, _, info) = call(&routes, &server, long).await;
    assert_eq!(outcome.unwrap(), 503);
    assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
}

#[tokio::test(start_paused = true)]
async fn the_servers_word_counts_as_the_route_says() {
    let server = Server::default();
    for (settings, value, took, status) in [
        ("{}", "7", 7000, 200),
        (r#"{"honour": false}"#, "7", 100, 200),
        (r#"{"cap": "5s", "beyondCap": "wait"}"#, "7", 5000, 200),
        (r#"{"cap": "5s", "beyondCap": "stop"}"#, "7", 0, 503),
        (r#"{"cap": "5s"}"#, "5", 5000, 200),
    ] {
        let routes = routes(&format!(
            r#"{{"default": {{"retry": {{"backoff": {{"jitter": "none"}}}}, "retryAfter": {settings}}}}}"#
        ));
        server.will(&[Step::RetryAfter(503, value)]);
        let (outcome, elapsed, _) = call(&routes, &server, get("/")).await;
        assert_eq!((outcome.unwrap(), elapsed), (status, took), "{settings}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_and_calls_have_the_routes_time() {
    let routes = routes(
        r#"{"default": {"retry": {"maxAttempts": 9, "backoff": {"initial": "0.1s", "multiplier": 1, "jitter": "none"}},
             "timeout": "2s", "attemptTimeout": "0.5s"}}"#,
    );
    let server = Server::default();
    server.will(&[Step::Hang]);
    let (outcome, took, _) = call(&routes, &server, get("/")).await;
    assert_eq!((outcome.unwrap(), took), (200, 600));

    server.will(&[Step::Hang; 9]);
    let (outcome, took, info) = call(&routes, &server, get("/")).await;
    let elapsed = outcome.unwrap_err().downcast::<Elapsed>().unwrap();
    assert_eq!((took, elapsed.limit), (2000, Some(Duration::from_secs(2))));
    assert!(!elapsed.ambiguous);
    assert_eq!(server.times(), [0, 600, 1200, 1800]);
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn an_update_is_for_later_calls_and_keeps_the_throttle_state() {
    let one = |name: &str, attempts: u32| {
        format!(
            r#"{{"default": {{"retry": {{"maxAttempts": {attempts}, "backoff": {{"jitter": "none"}}}}, "throttle": "{name}"}},
                "throttles": {{"{name}": {{"maxTokens": 4, "tokenRatio": 0.001}}}}}}"#
        )
    };
    let (routes, server) = (routes(&one("backend", 9)), Server::default());
    server.will(&[Step::Status(503); 9]);
    let (outcome, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (503, 2));
    assert_eq!(info.stopped(), Some(StopReason::Throttled));

    assert!(routes.update("{\"default\": 1}").is_err());
    routes.update(&one("backend", 2)).unwrap();
    let (_, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!(info.stopped(), Some(StopReason::Throttled), "still low");
    let bucket = Arc::clone(routes.load().throttle("backend").unwrap());
    assert_eq!(bucket.milli_tokens(), Some(1000));

    routes.update(&one("another", 2)).unwrap();
    let (_, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!(
        info.stopped(),
        Some(StopReason::Attempts),
        "another name, a full bucket"
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_without_recovery_sends_once() {
    let (routes, server) = (routes(r#"{"default": {}}"#), Server::default());
    server.will(&[Step::Status(503)]);
    let (outcome, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (503, 1));

    let (routes, server) = (
        LiveHttpPolicies::new(HttpPolicies::default()),
        Server::default(),
    );
    server.will(&[Step::Status(503)]);
    let (outcome, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!(
        (outcome.unwrap(), info.attempts()),
        (200, 2),
        "left to the layers"
    );
}

#[tokio::test(start_paused = true)]
async fn a_presets_route_follows_its_figures_and_its_header() {
    let text =
        r#"{"default": {"retry": {"preset": "aws-standard-2.1", "backoff": {"jitter": "none"}}}}"#;
    let (routes, server) = (routes(text), Server::default());
    server.will(&[
        Step::Status(500),
        Step::Header(503, "x-amz-retry-after", "1500"),
    ]);
    let (outcome, _, info) = call(&routes, &server, get("/")).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (200, 3));
    assert_eq!(server.times(), [0, 50, 1550]);
    assert_eq!(routes.load().quota("default").unwrap().tokens(), 486);

    // Retry-After itself is not part of the preset; a route may enable it.
    server.will(&[Step::RetryAfter(503, "2")]);
    let (_, took, _) = call(&routes, &server, get("/")).await;
    assert_eq!(took, 50);
    let both = text.replace("{\"retry\"", "{\"retryAfter\": {}, \"retry\"");
    routes.update(&both).unwrap();
    server.will(&[
        Step::RetryAfter(503, "2"),
        Step::Header(503, "x-amz-retry-after", "99999999999999"),
    ]);
    let (_, _, _) = call(&routes, &server, get("/")).await;
    assert_eq!(server.times(), [0, 2000, 2000 + 5100]);
}

#[tokio::test(start_paused = true)]
async fn a_presets_empty_quota_sends_once_and_other_routes_go_on() {
    let text = r#"{"routes": [
            {"name": "a", "match": {"prefix": "/a"}, "retry": {"preset": "aws-standard-2.1"}},
            {"name": "b", "match": {"prefix": "/b"}, "retry": {"preset": "aws-standard-2.1"}}]}"#;
    let (routes, server) = (routes(text), Server::default());
    // Seventeen calls with two retries each cost 476 of 500.
    for _ in 0..17 {
        server.will(&[Step::Status(500); 3]);
        let (_, _, _) = call(&routes, &server, get("/a")).await;
    }
    server.will(&[Step::Status(500); 3]);
    let (outcome, _, info) = call(&routes, &server, get("/a")).await;
    assert_eq!((outcome.unwrap(), info.attempts()), (500, 2));
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
    server.will(&[Step::Status(500)]);
    let (outcome, _, _) = call(&routes, &server, get("/b")).await;
    assert_eq!(outcome.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn transport_errors_are_retried_unless_the_route_says_no() {
    let one = |retry: bool| {
        format!(
            r#"{{"default": {{"retry": {{"transportErrors": {retry}, "backoff": {{"jitter": "none"}}}}}}}}"#
        )
    };
    let (routes, server) = (routes(&one(true)), Server::default());
    server.will(&[Step::Refused]);
    let (outcome, took, _) = call(&routes, &server, get("/")).await;
    assert_eq!((outcome.unwrap(), took), (200, 100));
    server.will(&[Step::Broken]);
    let (outcome, _, _) = call(&routes, &server, get("/")).await;
    assert_eq!(outcome.unwrap(), 200);
    // A POST in flight has an unknown outcome; on a refused connection nothing was sent.
    server.will(&[Step::Broken]);
    let (outcome, _, info) = call(&routes, &server, request(Method::POST, "/", "x")).await;
    assert!(outcome.is_err());
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    server.will(&[Step::Refused]);
    let (outcome, _, _) = call(&routes, &server, request(Method::POST, "/", "x")).await;
    assert_eq!(outcome.unwrap(), 200);

    routes.update(&one(false)).unwrap();
    server.will(&[Step::Broken]);
    let (outcome, _, info) = call(&routes, &server, get("/")).await;
    assert!(outcome.is_err());
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Fatal))
    );
}

/// For any method, because nothing was sent; final if transport errors are not retried.
#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_made_goes_by_the_policy() {
    let server = Server::default();
    for (recovery, attempts, stopped) in [
        (r#""retry": {"maxAttempts": 3}"#, 3, StopReason::Attempts),
        (
            r#""retry": {"transportErrors": false}"#,
            1,
            StopReason::Fatal,
        ),
        (
            r#""hedge": {"maxAttempts": 2, "delay": "9s", "budgetPercent": 100}"#,
            2,
            StopReason::Attempts,
        ),
        (
            r#""hedge": {"delay": "9s", "transportErrors": false}"#,
            1,
            StopReason::Fatal,
        ),
        (r#""timeout": "9s""#, 1, StopReason::Attempts),
    ] {
        let routes = routes(&format!(r#"{{"default": {{{recovery}}}}}"#));
        for method in [Method::GET, Method::POST] {
            server.will(&[Step::Refused; 9]);
            let (outcome, _, info) = call(&routes, &server, request(method, "/", "x")).await;
            assert!(outcome.is_err());
            assert_eq!(info.attempts(), attempts, "{recovery}");
            assert_eq!(info.stopped(), Some(stopped), "{recovery}");
            let failures = info.records().filter_map(|record| record.failure);
            assert!(
                failures
                    .map(|failure| failure.stage)
                    .eq(vec![Stage::Dispatch; attempts as usize])
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_route_matching_host_prefix_and_method_wins() {
    let text = r#"{"routes": [
            {"name": "off", "match": {"host": "fragile.example", "prefix": "/v1"}},
            {"name": "deletes", "match": {"methods": ["DELETE"]}, "retry": {"maxAttempts": 2, "backoff": {"jitter": "none"}}}],
        "default": {"retry": {"maxAttempts": 4, "backoff": {"jitter": "none"}}}}"#;
    let (routes, server) = (routes(text), Server::default());
    for (method, uri, attempts) in [
        (Method::DELETE, "http://fragile.example/v1/x", 1),
        (Method::DELETE, "http://fragile.example/v2", 2),
        (Method::GET, "http://sturdy.example/v1/x", 4),
    ] {
        server.will(&[Step::Status(503); 9]);
        let (outcome, _, info) = call(&routes, &server, request(method, uri, "")).await;
        assert_eq!(
            (outcome.unwrap(), info.attempts()),
            (503, attempts),
            "{uri}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_ms_counts_unless_the_route_says_no() {
    let server = Server::default();
    for (settings, took) in [("{}", 250), (r#"{"milliseconds": false}"#, 100)] {
        let routes = routes(&format!(
            r#"{{"default": {{"retry": {{"backoff": {{"jitter": "none"}}}}, "retryAfter": {settings}}}}}"#
        ));
        server.will(&[Step::Header(503, "retry-after-ms", "250")]);
        let (_, elapsed, _) = call(&routes, &server, get("/")).await;
        assert_eq!(elapsed, took, "{settings}");
    }
}
