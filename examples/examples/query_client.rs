//! A client of Couchbase's query service: hyper-util's client with the rules of RFC 0049 around it.
//! The node forgets a prepared statement, loses a response half-way, and then succeeds.
//!
//! Run with `cargo run -p reattempt-examples --example query_client`.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::RetryInfo;
use reattempt::reason::{QUERY_PREPARED_STATEMENT_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use reattempt_couchbase::service::{ReadOnly, ServiceClientLayer};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

const ROWS: &str = r#"{"results": [{"airline": "KLM"}], "status": "success"}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let gone =
        r#"{"results": [], "errors": [{"code": 4040, "msg": "No such prepared statement"}]}"#;
    let node = Server::start(
        Script::new()
            // A response of the query service may be an error with any status, also with 200.
            .then(Step::status(200).body(gone))
            .then(Step::close_during_body(30).body(ROWS))
            .otherwise(Step::status(200).body(ROWS)),
    )
    .await?;

    let mut client = ServiceBuilder::new()
        .layer(ServiceClientLayer::query())
        .service(Client::builder(TokioExecutor::new()).build_http());

    let statement = r#"{"prepared": "airlines", "readonly": true}"#;
    let mut request = Request::post(format!("{}/query/service", node.uri()))
        .header("content-type", "application/json")
        // Without this, a request with a lost response would not be retried.
        .extension(ReadOnly)
        .body(Full::new(Bytes::from(statement)))?;
    let watch = RetryInfo::track(&mut request);
    let answer = client.ready().await?.call(request).await?;
    let rows = answer.into_body().collect().await?.to_bytes();

    println!("{}", String::from_utf8_lossy(&rows));
    for record in watch.info().records() {
        let reason = record.failure.map(|failure| failure.reason.name());
        println!(
            "  attempt {}: {reason:?}, next after {:?}",
            record.number, record.delay
        );
    }
    assert_eq!(rows, ROWS);
    let reasons: Vec<_> = watch.info().reasons().collect();
    assert_eq!(
        reasons,
        [
            QUERY_PREPARED_STATEMENT_FAILURE,
            SOCKET_CLOSED_WHILE_IN_FLIGHT
        ]
    );
    Ok(())
}
