//! Responses that nginx makes itself, and how the client handles them.

use std::time::Duration;

use http::Method;
use reattempt::{ServerPushback, StopReason};
use reattempt_http::HttpPushback;
use reattempt_http::reasons::{
    HTTP_BAD_GATEWAY, HTTP_GATEWAY_TIMEOUT, HTTP_SERVICE_UNAVAILABLE, HTTP_TOO_MANY_REQUESTS,
};
use reattempt_tests::nginx::Nginx;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::client::Client;

const MAINTENANCE: &str = "location / { add_header Retry-After 1 always; return 503; }";
const WORKS: &str = "location / { return 200 hello; }";

/// A maintenance period that ends while the client waits as told by Retry-After.
#[tokio::test]
async fn a_503_with_retry_after_is_waited_out() {
    for http2 in [false, true] {
        let Some(server) = Nginx::start(MAINTENANCE).await else {
            return;
        };
        let client = Client::hyper_util(server.uri(http2), http2);
        let post = client.call(Method::POST, "/", "post").await;
        assert_eq!((post.status(), post.info.attempts()), (503, 1));
        assert_eq!(post.info.stopped(), Some(StopReason::NotIdempotent));

        let call = client.call(Method::GET, "/", "get");
        let was_asked = || server.log().iter().any(|(name, _)| name == "get");
        let maintained = async {
            while !was_asked() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            server.reload(WORKS);
        };
        let (ended, ()) = tokio::join!(call, maintained);
        assert_eq!(ended.status(), 200);
        assert!(ended.took >= Duration::from_secs(1), "{:?}", ended.took);
        let record = ended.info.records().next().expect("a record");
        let second = ServerPushback::After(Duration::from_secs(1));
        assert_eq!(record.pushback, Some(second));
        assert!(ended.info.count(HTTP_SERVICE_UNAVAILABLE) >= 1);
    }
}

/// A limit of twenty requests per second: all calls succeed, none is lost, and a rejected POST may
/// be retried.
#[tokio::test]
async fn a_rate_limit_is_met_and_waited_for() {
    let limited =
        "location / { limit_req zone=limit; add_header Retry-After 0 always; empty_gif; }";
    let Some(server) = Nginx::start(limited).await else {
        return;
    };
    let reader = HttpPushback::new().spread(Duration::from_millis(500));
    let client = Client::hyper_util(server.uri(false), false).retry_after(reader);
    let mut calls = JoinSet::new();
    for n in 0..12 {
        let client = client.clone();
        calls.spawn(async move { client.call(Method::GET, "/", &format!("c{n}")).await });
    }
    let mut refused = 0;
    while let Some(ended) = calls.join_next().await {
        let ended = ended.expect("no panic");
        assert_eq!(ended.status(), 200);
        refused += ended.info.count(HTTP_TOO_MANY_REQUESTS);
    }
    assert!(refused > 0, "the limit was never met");
    let post = loop {
        let post = client.call(Method::POST, "/", "post").await;
        if post.info.attempts() > 1 {
            break post;
        }
    };
    assert!(post.info.count(HTTP_TOO_MANY_REQUESTS) > 0);
    assert_ne!(post.status(), 429, "sent until it got through");
}

#[tokio::test]
async fn a_gateway_without_anything_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = listener.local_addr().expect("its address");
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("its address")
    };
    let lines = format!(
        "location /closed {{ proxy_pass http://{closed}; }}
         location /silent {{ proxy_read_timeout 50ms; proxy_pass http://{silent}; }}"
    );
    let Some(server) = Nginx::start(&lines).await else {
        return;
    };
    let client = Client::hyper_util(server.uri(false), false);
    for (path, status, reason) in [
        ("/closed", 502, HTTP_BAD_GATEWAY),
        ("/silent", 504, HTTP_GATEWAY_TIMEOUT),
    ] {
        let post = client.call(Method::POST, path, "post").await;
        assert_eq!((post.status(), post.info.attempts()), (status, 1));
        assert_eq!(post.info.stopped(), Some(StopReason::NotIdempotent));
        let call = client.call(Method::GET, path, "get");
        let ended = tokio::time::timeout(Duration::from_millis(400), call).await;
        // Either a hundred attempts were made, or the call is still retrying.
        if let Ok(ended) = ended {
            assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
            assert_eq!(ended.info.count(reason), 100);
        }
    }
    drop(listener);
}
