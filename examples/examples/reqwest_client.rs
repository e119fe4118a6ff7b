//! reqwest with retries: its own request builder, sent with `send_with`.
//!
//! Run with `cargo run -p reattempt-examples --example reqwest_client`.

use http::Request;
use reattempt::RetryInfo;
use reattempt_http::HttpClientLayer;
use reattempt_http::reqwest::{RequestBuilderExt, ReqwestService, same_origin_redirects};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, ServiceBuilder, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // Busy twice, then moved: 307 repeats the body.
    let server = Server::start(
        Script::new()
            .then_times(2, Step::status(503))
            .then(Step::status(307).header("location", "/orders/new"))
            .otherwise(Step::status(200).body("thanks")),
    )
    .await?;
    let url = format!("{}/orders", server.uri());
    let order = ["one loaf"];

    let client = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(same_origin_redirects())
        .build()?;
    let retries = HttpClientLayer::standard();

    let answer = client.put(&url).json(&order).send_with(&retries).await?;
    println!("{} from {}", answer.status(), answer.url().path());
    assert_eq!(answer.text().await?, "thanks");
    assert_eq!(server.seen_count(), 4);

    // A POST is sent once, unless the server certainly did not process it. The caller knows better.
    server.set_script(Script::new().then(Step::close_before()));
    let prompt = client.post(&url).json(&order);
    let mut call = prompt.send_with(&retries).idempotent();
    let watch = RetryInfo::track(&mut call);
    let answer = call.await?;
    println!(
        "{} after {} attempts",
        answer.status(),
        watch.info().attempts()
    );
    for record in watch.info().records() {
        println!("  {record:?}");
    }
    assert_eq!(watch.info().attempts(), 2);

    // The same below any stack of layers.
    server.set_script(Script::new().then(Step::status(503)));
    let service = ServiceBuilder::new()
        .layer(retries)
        .concurrency_limit(100)
        .service(ReqwestService::new(client));
    let request = Request::get(&url).body(reqwest::Body::default())?;
    let answer = service.oneshot(request).await?;
    assert_eq!(answer.status(), 200);
    Ok(())
}
