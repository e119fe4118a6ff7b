//! The client and scripted nodes against each other and against published test vectors.

use std::future::Future;
use std::time::Duration;

use tower::{Service, ServiceExt as _};

use reattempt_clients::kv::{
    ClientError, ClientOptions, Connection, KvRequest, KvResponse, VbucketMap,
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

/// The map of a configuration of `host`.
fn map_in(config: &[u8], host: &str) -> VbucketMap {
    let config = ClusterConfig::parse(config, host).expect("config");
    VbucketMap::of(&config, &Network::Default).expect("map")
}

/// Options that log in to a node with all defaults.
fn couchbase() -> ClientOptions {
    ClientOptions::couchbase("Administrator", "password", "default")
}

/// A connection to a node without bootstrap.
async fn bare(node: &Node) -> Connection {
    let address = node.addr().to_string();
    within(Connection::connect(&address, &ClientOptions::memcached()))
        .await
        .expect("connect")
}

/// A connection to a node with the whole bootstrap.
async fn set_up(node: &Node) -> Connection {
    within(Connection::connect(&node.addr().to_string(), &couchbase()))
        .await
        .expect("connect")
}
