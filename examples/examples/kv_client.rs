//! A custom key-value client that survives a failover: three nodes, one of them dies, another takes
//! over.
//!
//! Routing is below the recovery layer, so that a retry is routed by the newest configuration. A
//! lost connection requests that configuration from another node at once (RFC 0024), and the retry
//! is sent as soon as it arrives. Run with `cargo run -p reattempt-examples --example kv_client`.

use reattempt::{Call, RetryInfo};
use reattempt_clients::kv;
use reattempt_clients::kv::client::{ClientOptions, KvRequest, RoutedClient};
use reattempt_couchbase::{ConfigPoller, ConfigPollerOptions, ConfigStore, KvClientLayer};
use reattempt_testbed::kv::Cluster;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let cluster = Cluster::start(3).await?;
    let seeds: Vec<_> = cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();

    // A store for the newest configuration, updated by a poller and used by the client's routing.
    let store = ConfigStore::new();
    let options = ClientOptions::couchbase("Administrator", "password", "default")
        .on_config(kv::offer_to(store.clone()));
    let client = RoutedClient::new(seeds, options, kv::map_of(store.clone()));
    let poller = ConfigPoller::spawn(
        store.clone(),
        kv::fetch_over(client.clone()),
        ConfigPollerOptions::new().seeds(cluster.addresses().into_iter().map(Into::into)),
    );

    let mut kv = ServiceBuilder::new()
        .layer(KvClientLayer::new(poller))
        .layer(kv::StageLayer::new())
        .service(client);

    let set = Call::new(KvRequest::set("user::7", "seven", 0, 0));
    println!("set: status {}", kv.ready().await?.call(set).await?.status);

    let owner = cluster.owner_of("user::7".as_bytes()).ok_or("no owner")?;
    println!("the key's node dies, another takes over");
    cluster.fail_over(owner).await;

    let mut get = Call::new(KvRequest::get("user::7"));
    let watch = RetryInfo::track(&mut get);
    let answer = kv.ready().await?.call(get).await?;
    println!(
        "get: {:?}, configuration {:?}",
        answer.value(),
        store.revision()
    );
    for record in watch.info().records() {
        println!(
            "  attempt {} to {}: {} {}",
            record.number,
            record.backend.as_ref().map_or("?", |node| node.as_str()),
            record.outcome.name(),
            record.failure.map_or("", |failure| failure.reason.name()),
        );
    }
    assert_eq!(answer.value(), b"seven");
    assert!(watch.info().attempts() > 1);
    Ok(())
}
