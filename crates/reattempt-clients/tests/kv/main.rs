//! The client and scripted nodes against each other and against published test vectors.

use std::future::Future;
use std::time::Duration;

use tower::{Service, ServiceExt as _};

use reattempt_clients::kv::{
    ClientError, ClientOptions, Connection, KvRequest, KvResponse, NodeClient, VbucketMap,
};
use reattempt_couchbase::{ClusterConfig, Network};
use reattempt_testbed::kv::Node;

mod bootstrap;
mod client;
mod closes;
mod collections;
mod frame;
mod limits;
mod operations;
mod routed;
mod seeding;
mod staging;
mod strays;

/// Fails instead of waiting forever.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("it took longer than 20 s")
}

/// Awaits readiness, then calls.
async fn send<S>(service: &mut S, request: KvRequest) -> Result<KvResponse, ClientError>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError>,
{
    within(async { service.ready().await?.call(request).await }).await
}

/// The answer that a request has.
async fn answered<S>(service: &mut S, request: KvRequest) -> KvResponse
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError>,
{
    let sent = format!("{request:?}");
    send(service, request).await.expect(&sent)
}

/// Sends a request, whose answer comes later.
async fn start<S>(service: &mut S, request: KvRequest) -> S::Future
where
    S: Service<KvRequest, Error = ClientError>,
{
    within(service.ready()).await.expect("ready").call(request)
}

async fn until(mut holds: impl FnMut() -> bool) {
    within(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

/// The map of a configuration of `host`.
fn map_in(config: &[u8], host: &str) -> VbucketMap {
    let config = ClusterConfig::parse(config, host).expect("config");
    VbucketMap::of(&config, &Network::Default).expect("map")
}

/// Options that log in to a node with all defaults.
fn couchbase() -> ClientOptions {
    ClientOptions::couchbase("Administrator", "password", "default")
}

fn client_of(node: &Node) -> NodeClient {
    NodeClient::new(node.addr().to_string(), couchbase())
}

async fn connect(node: &Node, options: &ClientOptions) -> Result<Connection, ClientError> {
    within(Connection::connect(&node.addr().to_string(), options)).await
}

/// A connection to a node without bootstrap.
async fn bare(node: &Node) -> Connection {
    let options = ClientOptions::memcached();
    connect(node, &options).await.expect("connect")
}

/// A connection to a node with the whole bootstrap.
async fn set_up(node: &Node) -> Connection {
    connect(node, &couchbase()).await.expect("connect")
}
