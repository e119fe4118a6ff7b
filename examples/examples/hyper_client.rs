//! hyper-util's client with retries: one line, and the records of a call.
//!
//! Run with `cargo run -p reattempt-examples --example hyper_client`.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::RetryInfo;
use reattempt_http::HttpClientLayer;
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
        .layer(HttpClientLayer::standard())
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
