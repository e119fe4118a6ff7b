//! hyper-util's client with the whole stack: a deadline over all attempts, a token bucket, retries
//! with a reason, and server pushback.
//!
//! Run with `cargo run -p reattempt-examples --example hyper_client`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, PushbackLayer, RetryInfo, RetryLayer, ThrottleLayer, TokenBucket};
use reattempt_http::body::ReplayBodyLayer;
use reattempt_http::{HttpClassifier, HttpPushback};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // A server that closes the connection once, asks for a delay once, and then responds.
    let server = Server::start(
        Script::new()
            .then(Step::close_before())
            .then(Step::status(503).header("retry-after-ms", "30"))
            .otherwise(Step::status(200).body("hello")),
    )
    .await?;

    let mut client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(5)))
        .layer(ThrottleLayer::new(Arc::new(TokenBucket::new(10, 100)?)))
        .layer(ReplayBodyLayer::new())
        // Between Deadline and Retry: the classifier still sees hyper's own error.
        .map_err(BoxError::from)
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service(Client::builder(TokioExecutor::new()).build_http());

    let mut request =
        Request::put(format!("{}/greeting", server.uri())).body(Full::new(Bytes::from("hi")))?;
    let watch = RetryInfo::track(&mut request);
    let response = client.ready().await?.call(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();

    println!("{status}: {}", String::from_utf8_lossy(&body));
    for record in watch.info().records() {
        println!(
            "  attempt {} ({}): {} {} -> {:?}",
            record.number,
            record.kind.name(),
            record.outcome.name(),
            record
                .failure
                .map_or(String::new(), |failure| failure.reason.to_string()),
            record.delay,
        );
    }
    assert_eq!(watch.info().attempts(), 3);
    Ok(())
}
