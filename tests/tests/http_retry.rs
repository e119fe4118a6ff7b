//! The stack around hyper-util's client and its pool; the rules are cases of the program.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::RetryInfo;
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt_http::HttpClientLayer;
use reattempt_http::body::ReplayBody;
use reattempt_testbed::http::{Options, Protocol, Script, Server, Step};
use tower::{Layer, ServiceExt};

/// Long enough for a slow machine; no passing test waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

type Http = Client<HttpConnector, ReplayBody<Full<Bytes>>>;

/// hyper-util's own retries are off, so every further attempt is made by the stack.
fn http(http2: bool) -> Http {
    Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .retry_canceled_requests(false)
        .build_http()
}

/// The text of the answer.
async fn call(client: &Http, method: Method, server: &Server) -> (String, RetryInfo) {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}/order", server.uri()))
        .body(Full::from("apples"))
        .expect("a request");
    let watch = RetryInfo::track(&mut request);
    let backoff = Backoff::constant(Duration::from_millis(1));
    let layer = HttpClientLayer::standard()
        .timeout(PATIENCE)
        .strategy(MaxAttempts::new(1000, backoff));
    let service = layer.layer(client.clone());
    let answer = service.oneshot(request).await.expect("an answer");
    let body = answer.into_body().collect().await.expect("a body");
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    (text, watch.info())
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
        let (first, _) = call(&client, Method::GET, &server).await;
        let (second, info) = call(&client, Method::GET, &server).await;
        assert_eq!((&*first, &*second), ("first", "second"));
        assert_eq!(info.attempts(), 2);
        let connections: Vec<u64> = server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [0, 0, 1]);
    }
}

/// RFC 9113, 8.7: a refused stream, or one above a GOAWAY's last stream, was not processed.
#[tokio::test]
async fn a_post_on_a_refused_stream_is_sent_again() {
    for step in [Step::refuse_stream(), Step::go_away()] {
        let script = Script::new()
            .then(step)
            .otherwise(Step::status(200).body("pie"));
        let server = Server::start(script).await.expect("a server");
        let (answer, info) = call(&http(true), Method::POST, &server).await;
        assert_eq!(answer, "pie");
        assert_eq!(
            (info.attempts(), info.retries()),
            (2, 0),
            "it does not count"
        );
        let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies, ["apples", "apples"]);
    }
}
