//! Hedged reads over several hosts: the slowest of the replicas does not determine the latency of a
//! read.
//!
//! Each attempt goes to a replica that its call has not tried yet. The budget bounds what the
//! hedges cost; 5 is usual, but these are few calls.
//!
//! Run with `cargo run -p reattempt-examples --example hedged_reads`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use reattempt::RetryInfo;
use reattempt::health::HealthPolicy;
use reattempt_http::body::ReplayBody;
use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
use reattempt_testbed::http::{Server, Step};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

type Body = ReplayBody<Empty<Bytes>>;

const POLICY: &str = r#"{"default": {
    "hedge": {"maxAttempts": 2, "delay": "0.05s", "budgetPercent": 100}, "timeout": "2s"}}"#;

/// The request, to the replica with this address: `Backends` does not change it.
fn to(replica: &Uri, mut request: Request<Body>) -> Request<Body> {
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    (uri.scheme, uri.authority) = (replica.scheme().cloned(), replica.authority().cloned());
    *request.uri_mut() = Uri::from_parts(uri).expect("the request's URI has a path");
    request
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let slow = Server::start(
        Step::status(200)
            .body("from the slow one")
            .after(Duration::from_secs(5)),
    )
    .await?;
    let quick = Server::start(Step::status(200).body("from the quick one")).await?;

    // Its clones share one pool of connections.
    let hyper: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build_http();
    let replica = |address: String| {
        let uri: Uri = address.parse().expect("the server's address is a URI");
        let service = ServiceBuilder::new()
            .map_request(move |request| to(&uri, request))
            .service(hyper.clone());
        (address, service)
    };

    let policies = HttpPolicies::parse(POLICY)?.policies;
    let layer = HttpClientLayer::policies(LiveHttpPolicies::new(policies));
    let replicas = [slow.uri(), quick.uri()].map(replica);
    let backends = layer.backends(replicas, HealthPolicy::standard());
    let mut reads = ServiceBuilder::new().layer(layer).service(backends);

    // Which of the two comes first is drawn: one of a few reads meets the slow one.
    for _ in 0..8 {
        let mut request = Request::get("http://profiles/7?full=true").body(Empty::<Bytes>::new())?;
        let watch = RetryInfo::track(&mut request);
        let response = reads.ready().await?.call(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        println!(
            "{} ({} attempts)",
            String::from_utf8_lossy(&body),
            watch.info().attempts()
        );
        for record in watch.info().records() {
            println!(
                "  attempt {} to {:?}: {}",
                record.number,
                record.backend,
                record.outcome.name()
            );
        }
        assert_eq!(body, "from the quick one");
    }
    Ok(())
}
