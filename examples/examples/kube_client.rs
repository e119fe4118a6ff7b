//! `kube::Client` with retries below it, against an API server with a script.
//!
//! Run with `cargo run -p reattempt-examples --example kube_client`.

use std::pin::pin;

use hyper_util::client::legacy::Client as Hyper;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::client::ConfigExt;
use kube::{Api, Client, Config};
use reattempt_http::HttpClientLayer;
use reattempt_testbed::http::{Script, Server, Step};
use serde_json::json;
use tokio_stream::StreamExt;
use tower::{BoxError, ServiceBuilder};

/// A cluster's client, as in the documentation of `kube::Client::new`.
fn client(config: &Config) -> Result<Client, BoxError> {
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .layer(HttpClientLayer::kubernetes())
        .service(Hyper::builder(TokioExecutor::new()).build_http());
    Ok(Client::new(service, &config.default_namespace))
}

/// Too many requests, unavailable, and a dropped connection; then it works.
fn trouble() -> Script {
    let again = |status| Step::status(status).header("retry-after", "0");
    Script::new()
        .then(again(429))
        .then(again(503))
        .then(Step::close_before())
}

fn loaf() -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "loaf", "namespace": "bakery", "resourceVersion": "7"},
        "data": {"weight": "750 g"},
    })
}

fn answer(body: &serde_json::Value) -> Step {
    Step::status(200)
        .header("content-type", "application/json")
        .body(body.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let server = Server::start(trouble().otherwise(answer(&loaf()))).await?;
    let mut config = Config::new(server.uri().parse()?);
    config.default_namespace = "bakery".to_owned();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&config)?);

    // A read survives all of it.
    let map = maps.get("loaf").await?;
    println!("get: {:?} after {} attempts", map.data, server.seen().len());
    assert_eq!(server.seen().len(), 4);

    // And so does a watch, until it is established.
    server.forget();
    let event = json!({"type": "ADDED", "object": loaf()});
    server.set_script(trouble().otherwise(answer(&event)));
    let mut events = pin!(maps.watch(&WatchParams::default(), "0").await?);
    let Some(Ok(WatchEvent::Added(map))) = events.next().await else {
        return Err("no event".into());
    };
    println!(
        "watch: {:?} added, after {} attempts",
        map.metadata.name,
        server.seen().len()
    );
    assert_eq!(server.seen().len(), 4);

    // A create whose answer is lost may have been carried out: it is not repeated.
    server.forget();
    server.set_script(Script::new().then(Step::close_before()));
    let created = maps.create(&PostParams::default(), &map).await;
    println!("create: {}", created.expect_err("its answer was lost"));
    assert_eq!(server.seen().len(), 1);
    server.forget();
    server.set_script(Script::new().then(Step::status(503).header("retry-after", "0")));
    assert!(maps.create(&PostParams::default(), &map).await.is_err());
    assert_eq!(server.seen().len(), 1);

    // One that the server refused to begin is.
    server.forget();
    let busy = Step::status(429).header("retry-after", "0");
    server.set_script(Script::new().then(busy).otherwise(answer(&loaf())));
    maps.create(&PostParams::default(), &map).await?;
    assert_eq!(server.seen().len(), 2);
    Ok(())
}
