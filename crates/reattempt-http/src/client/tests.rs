mod admission;
mod conflicts;
mod health;
mod routes;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    DeadlineLayer, PushbackLayer, RetryInfo, RetryLayer, StopReason, ThrottleLayer, TokenBucket,
};
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::body::{DeadlineBodyError, ReplayBodyLayer};
use crate::{HttpPolicies, HttpPushback, LiveHttpPolicies};

type Sent = Request<ReplayBody<Full<Bytes>>>;

/// What one attempt meets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Status(u16),
    RetryAfter(u16, &'static str),
    Refused,
    Reset,
    Hangs,
}

/// Answers with these steps in order, then with 200; each attempt reads its whole body.
fn transport(
    steps: &[Step],
) -> impl Service<Sent, Response = Response<Full<Bytes>>, Error = io::Error, Future: Send> + Clone + Send
{
    let steps = Arc::new(Mutex::new(steps.iter().copied().collect::<VecDeque<_>>()));
    service_fn(move |request: Sent| {
        let step = steps.lock().unwrap().pop_front();
        async move {
            let body = request.into_body().collect().await;
            let body = body.map_err(io::Error::other)?.to_bytes();
            let response = Response::builder();
            let response = match step.unwrap_or(Step::Status(200)) {
                Step::Status(status) => response.status(status),
                Step::RetryAfter(status, value) => {
                    response.status(status).header("retry-after", value)
                }
                Step::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
                Step::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
                Step::Hangs => std::future::pending().await,
            };
            Ok(response.body(Full::new(body)).unwrap())
        }
    })
}

fn request(method: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method);
    let request = request.uri("http://shop.example/cart");
    request.body(Full::from("one loaf")).unwrap()
}

/// The outcome of a call as far as it can be compared, its records, and its duration.
async fn send<S, B, E>(service: S, mut request: Request<Full<Bytes>>) -> (Seen, RetryInfo, Duration)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = E>,
    E: std::fmt::Display,
{
    let handle = RetryInfo::track(&mut request);
    let began = Instant::now();
    let outcome = service.oneshot(request).await;
    let seen = outcome.map(|answer| answer.status().as_u16());
    let seen = seen.map_err(|error| error.to_string());
    (seen, handle.info(), began.elapsed())
}

type Seen = Result<u16, String>;

/// A strategy without randomness.
fn every_10_ms() -> MaxAttempts {
    MaxAttempts::new(3, Backoff::constant(Duration::from_millis(10)))
}

#[tokio::test(start_paused = true)]
async fn the_preset_decides_as_the_single_layers_do() {
    use Step::*;
    let preset = HttpClientLayer::standard()
        .strategy(every_10_ms())
        .pushback(HttpPushback::new())
        .throttle(Arc::new(TokenBucket::default()));
    for steps in [
        &[][..],
        &[Status(503)],
        &[Status(404)],
        &[Status(503), Status(500), Status(502)],
        &[Refused, Reset],
        &[Reset],
        &[RetryAfter(429, "2"), Status(503)],
        &[RetryAfter(503, "junk")],
        &[Status(503), Hangs],
        &[Hangs],
    ] {
        for method in ["GET", "POST", "PUT"] {
            let singles = ServiceBuilder::new()
                .layer(DeadlineLayer::new(Duration::from_secs(30)))
                .layer(ThrottleLayer::new(Arc::new(TokenBucket::default())))
                .layer(ReplayBodyLayer::new())
                .layer(RetryLayer::new(HttpClassifier::new(), every_10_ms()))
                .layer(PushbackLayer::new(HttpPushback::new()))
                .layer(reattempt::ClientErrorLayer)
                .service(transport(steps));
            let (seen, info, took) = send(preset.layer(transport(steps)), request(method)).await;
            let (expected, of_singles, expected_time) = send(singles, request(method)).await;
            let told = (seen, took, info.to_string());
            assert_eq!(
                told,
                (expected, expected_time, of_singles.to_string()),
                "{method} {steps:?}"
            );
            assert_eq!(info.stopped(), of_singles.stopped());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_three_attempts_of_an_idempotent_request() {
    let failing = [Step::Status(503); 5];
    for (method, attempts) in [
        ("GET", 3),
        ("PUT", 3),
        ("DELETE", 3),
        ("POST", 1),
        ("PATCH", 1),
    ] {
        let client = HttpClientLayer::standard().layer(transport(&failing));
        let (seen, info, took) = send(client, request(method)).await;
        assert_eq!((seen, info.attempts()), (Ok(503), attempts), "{method}");
        // Full jitter up to 100 ms, then up to 200 ms.
        assert!(took <= Duration::from_millis(300), "{method} {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_the_head_has_thirty_seconds() {
    let client = HttpClientLayer::standard().layer(transport(&[Step::Hangs]));
    let outcome = client.oneshot(request("POST")).await;
    let elapsed = outcome.err().and_then(|error| error.elapsed().cloned());
    let elapsed = elapsed.expect("a timeout");
    assert_eq!(elapsed.timeout, Some(Duration::from_secs(30)));
    assert!(elapsed.ambiguous, "the POST may have been carried out");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_its_cap() {
    let layer = HttpClientLayer::standard().no_timeout();
    let within = layer.layer(transport(&[Step::RetryAfter(503, "30")]));
    let (seen, _, took) = send(within, request("GET")).await;
    assert_eq!(seen, Ok(200));
    let (least, most) = (Duration::from_secs(30), Duration::from_millis(30_250));
    assert!((least..=most).contains(&took), "{took:?}");

    let beyond = layer.layer(transport(&[Step::RetryAfter(503, "31")]));
    let (seen, info, took) = send(beyond, request("GET")).await;
    assert_eq!((seen, took), (Ok(503), Duration::ZERO));
    assert_eq!(info.stopped(), Some(StopReason::Pushback));
}

#[tokio::test(start_paused = true)]
async fn a_dead_origin_leaves_the_retries_of_the_others() {
    let service = service_fn(|request: Sent| async move {
        let dead = request.uri().host() == Some("dead.example");
        let status = if dead { 503 } else { 200 };
        Ok::<_, io::Error>(
            Response::builder()
                .status(status)
                .body(Full::<Bytes>::default())
                .unwrap(),
        )
    });
    let layer = HttpClientLayer::standard();
    let get = |uri: &str| Request::get(uri).body(Full::<Bytes>::default()).unwrap();
    for _ in 0..40 {
        let _ = send(layer.layer(service), get("http://dead.example/")).await;
    }
    let (_, info, _) = send(layer.layer(service), get("http://dead.example/")).await;
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
    assert_eq!(info.attempts(), 1);
    let client = layer.layer(transport(&[Step::Status(503)]));
    let (seen, info, _) = send(client, get("http://alive.example/")).await;
    assert_eq!((seen, info.attempts()), (Ok(200), 2));
}

/// Never ends, and gives a byte every second.
struct Drips(Pin<Box<tokio::time::Sleep>>);

impl Drips {
    fn new() -> Self {
        Self(Box::pin(tokio::time::sleep(Duration::from_secs(1))))
    }
}

impl Body for Drips {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::ready!(self.0.as_mut().poll(cx));
        *self = Self::new();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b".")))))
    }
}

use std::future::Future as _;

async fn read_for(
    limit: Duration,
    body: &mut (impl Body<Error: std::fmt::Debug> + Unpin),
) -> usize {
    let mut frames = 0;
    let _ = tokio::time::timeout(limit, async {
        while let Some(Ok(_)) = body.frame().await {
            frames += 1;
        }
    })
    .await;
    frames
}

#[tokio::test(start_paused = true)]
async fn a_body_is_unlimited_unless_asked() {
    let service = service_fn(|_: Sent| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok::<_, io::Error>(Response::new(Drips::new()))
    });
    let watch = HttpClientLayer::standard().layer(service);
    let mut body = watch.oneshot(request("GET")).await.unwrap().into_body();
    assert_eq!(
        read_for(Duration::from_millis(3_600_500), &mut body).await,
        3600
    );

    let limited = HttpClientLayer::standard().body_timeout(Duration::from_millis(15_500));
    let answer = limited.layer(service).oneshot(request("GET")).await;
    let mut body = answer.unwrap().into_body();
    // From the head on, which took 20 s.
    assert_eq!(read_for(Duration::from_millis(15_400), &mut body).await, 15);
    let error = body.frame().await.unwrap().unwrap_err();
    let DeadlineBodyError::Elapsed(elapsed) = error;
    assert_eq!(elapsed.timeout, Some(Duration::from_millis(15_500)));
}

#[tokio::test(start_paused = true)]
async fn routes_override_the_defaults_and_can_be_replaced() {
    let table = |attempts: u32| {
        format!(
            r#"{{"routes": [
                {{"match": {{"methods": ["GET"]}}, "retry": {{"maxAttempts": {attempts},
                    "backoff": {{"initial": "0.01s", "max": "1s"}}}}}},
                {{"match": {{"methods": ["PUT"]}}, "hedge": {{"maxAttempts": 2, "delay": "0.05s"}}}}
            ]}}"#
        )
    };
    let live = LiveHttpPolicies::new(HttpPolicies::parse(&table(5)).unwrap().policies);
    let layer = HttpClientLayer::policies(live.clone());
    let failing = [Step::Status(503); 9];
    for attempts in [5, 2] {
        live.update(&table(attempts)).unwrap();
        let client = layer.layer(transport(&failing));
        let (seen, info, _) = send(client, request("GET")).await;
        assert_eq!((seen, info.attempts()), (Ok(503), attempts));
    }
    let hedged = layer.layer(transport(&[Step::Hangs]));
    let (seen, info, took) = send(hedged, request("PUT")).await;
    assert_eq!((seen, info.attempts()), (Ok(200), 2));
    assert_eq!(took, Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn the_transports_error_stays_reachable() {
    let client = HttpClientLayer::standard().layer(transport(&[Step::Reset]));
    let error = client.oneshot(request("POST")).await.unwrap_err();
    let kind = error.transport().map(io::Error::kind);
    assert_eq!(kind, Some(io::ErrorKind::ConnectionReset));
    let boxed = BoxError::from(error);
    let found = boxed
        .source()
        .and_then(|error| error.downcast_ref::<io::Error>());
    assert!(found.is_some(), "by its chain too");
}

/// B8: moved into a task, behind tower's buffer, and boxed.
#[tokio::test]
async fn a_client_can_be_buffered_boxed_and_spawned() {
    let client = ServiceBuilder::new()
        .buffer(4)
        .retry_http()
        .service(transport(&[Step::Status(503)]));
    let task = tokio::spawn(client.oneshot(request("GET")));
    assert_eq!(task.await.unwrap().unwrap().status(), 200);
    let boxed = BoxCloneService::new(HttpClientLayer::standard().layer(transport(&[])));
    let task = tokio::spawn(async move { boxed.oneshot(request("GET")).await });
    assert_eq!(task.await.unwrap().unwrap().status(), 200);
}
