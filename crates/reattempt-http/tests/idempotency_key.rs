//! A generated `Idempotency-Key` on the wire.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{RetryLayer, RouteLayer};
use reattempt_http::body::ReplayBodyLayer;
use reattempt_http::{HttpClassifier, HttpPolicies, IdempotencyKeyLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{ServiceBuilder, ServiceExt};

const PATIENCE: Duration = Duration::from_secs(20);

/// Reads one request with the body "ok", and returns its key.
async fn key_of(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nok") {
        assert_ne!(
            stream.read_buf(&mut read).await.unwrap(),
            0,
            "a request ends"
        );
    }
    let text = String::from_utf8(read).unwrap();
    let key = text
        .lines()
        .find_map(|line| line.strip_prefix("idempotency-key: "));
    key.unwrap().to_owned()
}

#[tokio::test]
async fn a_post_is_retried_with_the_key_of_its_first_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut keys = Vec::new();
        // The first answer of each call is lost: the connection ends after the request.
        for status in ["", "503 busy", "200 ok", "", "200 ok"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            keys.push(key_of(&mut stream).await);
            if !status.is_empty() {
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        keys
    });

    let policies = r#"{"default": {"retry": {}, "idempotencyKey": "generate"}}"#;
    let policies = HttpPolicies::parse(policies).unwrap().policies;
    let strategy = MaxAttempts::new(3, Backoff::constant(Duration::ZERO));
    let client = ServiceBuilder::new()
        .layer(RouteLayer::new(policies))
        .layer(IdempotencyKeyLayer::new().by_policy())
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(HttpClassifier::new(), strategy))
        .service(Client::builder(TokioExecutor::new()).build_http());
    for _ in 0..2 {
        let request = Request::post(format!("http://{address}/orders"));
        let request = request.body(Full::<Bytes>::from("ok")).unwrap();
        let call = client.clone().oneshot(request);
        let answer = tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
    }
    let keys = tokio::time::timeout(PATIENCE, server)
        .await
        .unwrap()
        .unwrap();
    let (first, second) = keys.split_at(3);
    assert!(first.iter().all(|key| *key == first[0]), "{keys:?}");
    assert!(second.iter().all(|key| *key == second[0]), "{keys:?}");
    assert_ne!(first[0], second[0]);
    assert!(
        first[0].starts_with('"') && first[0].len() == 38,
        "{keys:?}"
    );
}
