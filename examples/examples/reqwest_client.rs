//! reqwest as a tower service, with retries around it.
//!
//! reqwest's own retries are off; the stack sees its errors unchanged. Run with
//! `cargo run -p reattempt-examples --example reqwest_client`.

use std::time::Duration;

use http::Response;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    Call, DeadlineLayer, HasCallContext, Idempotency, PushbackLayer, RetryInfo, RetryLayer,
    UncallLayer,
};
use reattempt_http::{HttpClassifier, HttpPushback};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The request: reqwest's own cannot always be cloned, so each attempt builds one from these parts.
#[derive(Clone)]
struct Get(String);

async fn send(
    client: reqwest::Client,
    get: Get,
) -> Result<Response<reqwest::Body>, reqwest::Error> {
    client.get(get.0).send().await.map(Response::from)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let server = Server::start(
        Script::new()
            .then_times(2, Step::status(503))
            .otherwise(Step::status(200).body("hello")),
    )
    .await?;

    let reqwest = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .build()?;
    let mut client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(5)))
        .map_err(BoxError::from)
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .layer(UncallLayer::new())
        .service_fn(move |get: Get| send(reqwest.clone(), get));

    let mut call = Call::new(Get(format!("{}/greeting", server.uri())));
    // `Call` has no method: state that a GET may be sent twice.
    call.context_mut().set_idempotency(Idempotency::Idempotent);
    let watch = RetryInfo::track(&mut call);
    let response = client.ready().await?.call(call).await?;
    println!(
        "{} after {} attempts",
        response.status(),
        watch.info().attempts()
    );
    assert_eq!(watch.info().attempts(), 3);
    Ok(())
}
