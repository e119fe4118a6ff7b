//! HTTP on the wire: the stack around hyper-util's client, against a scripted server on loopback.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, PushbackLayer, RetryInfo, RetryLayer, StopReason};
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use reattempt_http::reasons::{
    HTTP_CONNECT_FAILED, HTTP_SERVICE_UNAVAILABLE, HTTP_TOO_MANY_REQUESTS,
};
use reattempt_http::{HttpClassifier, HttpPushback};
use reattempt_testbed::http::{Options, Protocol, Script, Server, Step};
use tokio::net::TcpSocket;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// The time after which a test fails instead of hanging. Longer than any delay here that must not
/// be waited out.
const PATIENCE: Duration = Duration::from_secs(30);

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it hangs")
}

type Http = Client<HttpConnector, ReplayBody<Full<Bytes>>>;

/// hyper-util's own retries are off, so every further attempt is made by the stack.
fn http(http2: bool) -> Http {
    Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .retry_canceled_requests(false)
        .build_http()
}

/// A thousand attempts, this far apart.
async fn call_every(
    client: &Http,
    apart: Duration,
    mut request: Request<Full<Bytes>>,
) -> (Result<Response<Incoming>, BoxError>, RetryInfo) {
    let watch = RetryInfo::track(&mut request);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(PATIENCE))
        .layer(ReplayBodyLayer::new())
        .map_err(BoxError::from)
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::new(1000, Backoff::constant(apart)),
        ))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service(client.clone());
    let outcome = within(service.oneshot(request)).await;
    (outcome, watch.info())
}

async fn call(
    client: &Http,
    request: Request<Full<Bytes>>,
) -> (Result<Response<Incoming>, BoxError>, RetryInfo) {
    call_every(client, Duration::from_millis(1), request).await
}

const HOUR: Duration = Duration::from_secs(3600);

fn request(method: Method, uri: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("{uri}/order"))
        .body(Full::from("apples"))
        .expect("a request")
}

async fn start(script: impl Into<Script>) -> Server {
    Server::start(script).await.expect("a server")
}

async fn text(outcome: Result<Response<Incoming>, BoxError>) -> String {
    let body = outcome.expect("an answer").into_body().collect().await;
    String::from_utf8_lossy(&body.expect("a body").to_bytes()).into_owned()
}

fn status(outcome: &Result<Response<Incoming>, BoxError>) -> StatusCode {
    outcome.as_ref().expect("an answer").status()
}

/// Server-provided pushback replaces the back-off.
#[tokio::test]
async fn a_503_comes_back_when_the_server_said() {
    for http2 in [false, true] {
        let server = start(
            Script::new()
                .then(Step::status(503).header("retry-after", "1"))
                .otherwise(Step::status(200).body("pie")),
        )
        .await;
        let put = request(Method::PUT, &server.uri());
        let (answer, info) = call_every(&http(http2), HOUR, put).await;
        assert_eq!(text(answer).await, "pie");
        assert_eq!(info.count(HTTP_SERVICE_UNAVAILABLE), 1);
        let seen = server.seen();
        assert!(seen[1].arrival - seen[0].arrival >= Duration::from_secs(1));
        assert!(
            seen.iter()
                .all(|seen| seen.body == "apples" && seen.body_complete)
        );
    }
}

/// RFC 9110: 503 does not mean that nothing happened.
#[tokio::test]
async fn a_post_stays_where_it_is_after_503() {
    let server = start(Step::status(503).header("retry-after", "0")).await;
    let (answer, info) = call(&http(false), request(Method::POST, &server.uri())).await;
    assert_eq!(status(&answer), 503);
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    assert_eq!(server.seen_count(), 1);
}

/// RFC 6585: 429 does mean that.
#[tokio::test]
async fn a_429_sends_a_post_again_too() {
    for method in [Method::GET, Method::POST] {
        let server = start(
            Script::new()
                .then_times(2, Step::status(429).header("retry-after-ms", "5"))
                .otherwise(Step::status(200).body("pie")),
        )
        .await;
        let (answer, info) = call_every(&http(false), HOUR, request(method, &server.uri())).await;
        assert_eq!(text(answer).await, "pie");
        assert_eq!(info.count(HTTP_TOO_MANY_REQUESTS), 2);
        assert_eq!(server.seen_count(), 3);
    }
}

#[tokio::test]
async fn a_status_that_another_attempt_does_not_mend_is_the_callers() {
    for code in [400, 404, 409, 501, 505] {
        let server = start(Step::status(code)).await;
        let (answer, _) = call(&http(false), request(Method::GET, &server.uri())).await;
        assert_eq!((status(&answer).as_u16(), server.seen_count()), (code, 1));
    }
}

/// The connection worked before; the server closes it on the next request.
#[tokio::test]
async fn a_reused_connection_that_is_closed_is_replaced() {
    for step in [Step::close_before(), Step::reset(), Step::half_frame()] {
        let options = Options::new().protocol(Protocol::Http1);
        let script = Script::new()
            .then(Step::status(200).body("first"))
            .then(step)
            .otherwise(Step::status(200).body("second"));
        let server = Server::start_with(options, script).await.expect("a server");
        let client = http(false);
        let (first, _) = call(&client, request(Method::GET, &server.uri())).await;
        assert_eq!(text(first).await, "first");
        let (second, info) = call(&client, request(Method::GET, &server.uri())).await;
        assert_eq!(text(second).await, "second");
        assert_eq!(info.attempts(), 2);
        let connections: Vec<u64> = server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [0, 0, 1]);
    }
}

/// The request may have been processed.
#[tokio::test]
async fn a_post_that_was_lost_in_flight_is_not_sent_again() {
    for (http2, step) in [
        (false, Step::close_before()),
        (false, Step::reset()),
        (true, Step::close_before()),
        (true, Step::reset()),
    ] {
        let server = start(
            Script::new()
                .then(step)
                .otherwise(Step::status(200).body("not expected")),
        )
        .await;
        let (answer, info) = call(&http(http2), request(Method::POST, &server.uri())).await;
        assert!(answer.is_err());
        assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
        assert_eq!(server.seen_count(), 1);
    }
}

/// RFC 9113, 8.7: a refused stream, or one above a GOAWAY's last stream, was not processed.
#[tokio::test]
async fn a_post_on_a_refused_stream_is_sent_again() {
    for step in [Step::refuse_stream(), Step::go_away()] {
        let server = start(
            Script::new()
                .then(step)
                .otherwise(Step::status(200).body("pie")),
        )
        .await;
        let (answer, info) = call(&http(true), request(Method::POST, &server.uri())).await;
        assert_eq!(text(answer).await, "pie");
        assert_eq!(
            (info.attempts(), info.retries()),
            (2, 0),
            "it does not count"
        );
        assert_eq!(server.seen_count(), 2);
    }
}

/// Nothing was sent.
#[tokio::test]
async fn a_post_to_a_refused_connection_is_sent_again() {
    // Bound but not listening: connections are refused, and no other process gets the port.
    let reserved = TcpSocket::new_v4().expect("a socket");
    reserved.set_reuseaddr(true).expect("an option");
    reserved
        .bind(([127, 0, 0, 1], 0).into())
        .expect("a free port");
    let address = reserved.local_addr().expect("its address");
    let mut request = request(Method::POST, &format!("http://{address}"));
    let outer = RetryInfo::track(&mut request);
    let client = http(false);
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .map_err(BoxError::from)
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::new(10_000, Backoff::constant(Duration::from_millis(1))),
        ))
        .service(client);
    let up = async {
        while outer.info().attempts() < 3 {
            tokio::task::yield_now().await;
        }
        let options = Options::new().at(address);
        Server::start_with(options, Step::status(200).body("pie"))
            .await
            .expect("the server comes up")
    };
    let (answer, server) = within(async { tokio::join!(service.oneshot(request), up) }).await;
    assert_eq!(text(answer).await, "pie");
    assert!(outer.info().count(HTTP_CONNECT_FAILED) >= 2);
    assert_eq!(server.seen_count(), 1);
}

/// The response had begun, so the caller gets the error of the broken body.
#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let server = start(Step::close_during_body(5)).await;
    let (answer, info) = call(&http(false), request(Method::GET, &server.uri())).await;
    let body = answer.expect("an answer").into_body().collect().await;
    assert!(body.is_err());
    assert_eq!((info.attempts(), server.seen_count()), (1, 1));
}
