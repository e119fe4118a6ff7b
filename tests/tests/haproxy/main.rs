//! The HTTP stack around hyper-util's client, through a third-party proxy: Debian's haproxy with
//! HTTP/2 in front and HTTP/1.1 behind. It returns REFUSED_STREAM for each request whose server
//! closed the connection without a response, even if the server processed the request. If haproxy
//! is not installed, the tests print a line and pass.

mod proxy;

use std::collections::HashMap;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use reattempt::{RetryInfo, StopReason};
use reattempt_http::body::ReplayBody;
use reattempt_http::client::HttpClient;
use reattempt_http::reasons::{HTTP_STREAM_REFUSED, HTTP_STREAM_RESET};
use reattempt_http::{HttpClientLayer, HttpPolicies};
use reattempt_testbed::http::{Options, Protocol, Script, Server, Step};
use reattempt_tests::{PATIENCE, within};
use tokio::task::JoinSet;
use tower::{BoxError, Layer, ServiceExt};

use crate::proxy::Haproxy;

#[derive(Clone)]
struct Caller {
    client: HttpClient<Client<HttpConnector, ReplayBody<Full<Bytes>>>, HttpPolicies>,
    uri: String,
}

impl Caller {
    /// Up to ten attempts, by a policy with this setting for refused streams.
    fn new(proxy: &Haproxy, refused: &str) -> Self {
        let policies = format!(
            r#"{{"default": {{"refused": "{refused}", "retry": {{
                "maxAttempts": 10, "backoff": {{"initial": "0.001s", "max": "0.005s"}}
            }}}}}}"#
        );
        let parsed = HttpPolicies::parse(&policies).expect("a policy");
        // hyper-util's own retries are off, so every further attempt is made by the stack.
        let hyper = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .retry_canceled_requests(false)
            .build_http();
        let layer = HttpClientLayer::standard()
            .route(parsed.policies)
            .timeout(PATIENCE)
            .no_throttle();
        Self {
            client: layer.layer(hyper),
            uri: proxy.uri(),
        }
    }

    /// The status and the record of a call. The path identifies the call.
    async fn call(&self, method: Method, path: &str) -> (Result<u16, BoxError>, RetryInfo) {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.uri))
            .body(Full::from("apples"))
            .expect("a request");
        let watch = RetryInfo::track(&mut request);
        let answer = async {
            let (head, body) = self.client.clone().oneshot(request).await?.into_parts();
            body.collect().await?;
            Ok(head.status.as_u16())
        };
        (within(answer).await, watch.info())
    }
}

/// A server that processes and logs every request, and responds by this script.
async fn server(script: Script) -> Server {
    let options = Options::new().protocol(Protocol::Http1);
    Server::start_with(options, script).await.expect("a server")
}

/// The case that motivates `refused` in the docs.
#[tokio::test]
async fn an_ambiguous_refusal_does_a_post_exactly_once() {
    let server = server(Script::new().otherwise(Step::close_before())).await;
    let Some(proxy) = Haproxy::start(server.addr()).await else {
        return;
    };
    // By default the proxy is trusted, so the POST may be processed more than once.
    let believing = Caller::new(&proxy, "unprocessed");
    let (outcome, info) = believing.call(Method::POST, "/believed").await;
    outcome.unwrap_err();
    assert!(info.count(HTTP_STREAM_REFUSED) > 1, "{info:#}");

    let doubting = Caller::new(&proxy, "ambiguous");
    let (outcome, info) = doubting.call(Method::POST, "/doubted").await;
    outcome.unwrap_err();
    assert_eq!(info.attempts(), 1);
    assert_eq!(info.count(HTTP_STREAM_RESET), 1);
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    let done = server.seen();
    let done = done.iter().filter(|seen| seen.path == "/doubted");
    assert_eq!(done.count(), 1);
}

#[tokio::test]
async fn an_ambiguous_refusal_still_repeats_a_get() {
    let server = server(Script::new().then_times(3, Step::close_before())).await;
    let Some(proxy) = Haproxy::start(server.addr()).await else {
        return;
    };
    let caller = Caller::new(&proxy, "ambiguous");
    let (outcome, info) = caller.call(Method::GET, "/").await;
    assert_eq!(outcome.expect("an answer"), 200);
    assert_eq!(info.retries(), 3, "none of them is transparent: {info:#}");
    assert_eq!(server.seen_count(), 4);
}

/// A server that closes one connection in five after it has processed a request.
#[tokio::test]
async fn ambiguous_refusals_under_load_double_no_post() {
    const CALLERS: usize = 8;
    const CALLS: usize = 40;
    let closing = Script::handler(|seen| match seen.number % 5 {
        4 => Step::close_before(),
        _ => Step::status(200),
    });
    let server = server(closing).await;
    let Some(proxy) = Haproxy::start(server.addr()).await else {
        return;
    };
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let caller = Caller::new(&proxy, "ambiguous");
        callers.spawn(async move {
            let mut lost = 0;
            for turn in 0..CALLS {
                let path = format!("/{number}/{turn}");
                let (read, info) = caller.call(Method::GET, &path).await;
                assert_eq!(read.expect("no read is lost"), 200, "{info:#}");
                let (written, info) = caller.call(Method::POST, &path).await;
                match written {
                    Ok(status) => assert_eq!(status, 200),
                    Err(_) => {
                        assert_eq!(info.stopped(), Some(StopReason::NotIdempotent), "{info:#}");
                        lost += 1;
                    }
                }
            }
            lost
        });
    }
    let mut lost = 0;
    while let Some(caller) = within(callers.join_next()).await {
        lost += caller.expect("no panic");
    }
    let mut done: HashMap<String, usize> = HashMap::new();
    for seen in server.seen() {
        if seen.method == Method::POST {
            *done.entry(seen.path).or_default() += 1;
        }
    }
    let doubled: Vec<_> = done.iter().filter(|(_, times)| **times > 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
    assert_eq!(done.len(), CALLERS * CALLS, "each was done");
    assert!(lost > 0, "no write met a closed connection");
}
