use bson::doc;

use super::*;

const FIRST: &str = "127.0.0.1:1";
const SECOND: &str = "127.0.0.1:2";

/// A topology whose monitors do nothing until the test waits for something.
fn topology() -> Topology {
    let topology = Topology::new(ClientOptions::new([FIRST]));
    primary_lists(&topology, &[FIRST, SECOND]);
    let hello = doc! { "setName": "s", "secondary": true, "hosts": [FIRST, SECOND] };
    let second = ServerDescription::from_hello(SECOND, &hello);
    topology.inner.seen(second);
    topology
}

fn primary_lists(topology: &Topology, hosts: &[&str]) {
    let hello = doc! { "setName": "s", "isWritablePrimary": true, "hosts": hosts.to_vec() };
    topology
        .inner
        .seen(ServerDescription::from_hello(FIRST, &hello));
}

fn pool(topology: &Topology, address: &str) -> Pool {
    lock(&topology.inner.watched)[address].pool.clone()
}

fn broken() -> MongoError {
    MongoError::Network {
        origin: super::super::Origin {
            server: SECOND.to_owned(),
            max_wire_version: None,
            connection: None,
        },
        during: During::Receive,
        kind: std::io::ErrorKind::ConnectionReset,
        message: String::new(),
        labels: Vec::new(),
    }
}

#[tokio::test]
async fn the_pool_of_a_server_that_is_removed_is_cleared() {
    let topology = topology();
    let removed = pool(&topology, SECOND);
    primary_lists(&topology, &[FIRST]);
    let failed = removed.check_out(None).await.unwrap_err();
    assert!(matches!(failed.error, MongoError::PoolCleared { .. }));
    assert_eq!(pool(&topology, FIRST).generation(), 0);
}

/// The pools of both times begin at the same generation.
#[tokio::test]
async fn a_failure_does_not_reach_a_server_that_came_back() {
    let topology = topology();
    let before = pool(&topology, SECOND);
    topology.on_error(&before, 0, &broken());
    primary_lists(&topology, &[FIRST]);
    primary_lists(&topology, &[FIRST, SECOND]);
    let now = pool(&topology, SECOND);
    topology.on_error(&before, before.generation(), &broken());
    assert_eq!(now.generation(), 0);
    assert_eq!(topology.description().servers[SECOND].error, None);
    topology.on_error(&now, 0, &broken());
    assert_eq!(now.generation(), 1);
    assert!(topology.description().servers[SECOND].error.is_some());
}
