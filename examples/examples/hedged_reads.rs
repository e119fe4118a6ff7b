//! Hedged reads over several hosts: the slowest of three replicas does not determine the latency of
//! a read.
//!
//! The picker below the hedge layer sends each attempt to a host that the call has not tried yet.
//! Run with `cargo run -p reattempt-examples --example hedged_reads`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use reattempt::{Backend, HasCallContext, HedgeLayer, HedgePolicy};
use reattempt_http::HttpClassifier;
use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
use reattempt_testbed::http::{Server, Step};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

type Body = ReplayBody<Empty<Bytes>>;

/// Sends an attempt to the first host that its call has not tried yet.
async fn pick(
    client: Client<HttpConnector, Body>,
    hosts: Vec<String>,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let context = request.context_mut();
    let tried = context.backends_tried();
    let host = hosts
        .iter()
        .find(|host| {
            tried
                .iter()
                .all(|backend| backend.as_str() != host.as_str())
        })
        .unwrap_or(&hosts[0]);
    context.reporter().backend(Backend::new(host.as_str()));
    let uri = format!("{host}{}", request.uri().path());
    *request.uri_mut() = uri.parse().expect("a host and a path make a URI");
    client.request(request).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let slow = Server::start(
        Step::status(200)
            .body("from the slow one")
            .after(Duration::from_secs(5)),
    )
    .await?;
    let quick = Server::start(Step::status(200).body("from a quick one")).await?;
    let hosts = vec![slow.uri(), quick.uri()];

    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let mut reads = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(HedgeLayer::new(
            HttpClassifier::new(),
            HedgePolicy::new(3, Duration::from_millis(50)),
        ))
        .service_fn(move |request| pick(client.clone(), hosts.clone(), request));

    let mut request = Request::get("/profile").body(Empty::<Bytes>::new())?;
    let watch = reattempt::RetryInfo::track(&mut request);
    let response = reads.ready().await?.call(request).await?;
    let body = response.into_body().collect().await?.to_bytes();
    println!(
        "{} ({} attempts)",
        String::from_utf8_lossy(&body),
        watch.info().attempts()
    );
    for record in watch.info().records() {
        println!(
            "  attempt {} to {:?}: {:?}",
            record.number, record.backend, record.outcome
        );
    }
    assert_eq!(body, "from a quick one");
    Ok(())
}
