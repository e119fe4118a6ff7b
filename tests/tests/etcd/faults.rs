//! Faults of members while callers read and write.

use crate::client::Client;
use crate::cluster::Cluster;
use crate::load::under_load;
use crate::proxy::Proxy;

#[tokio::test]
async fn a_killed_leader_loses_no_read_and_doubles_no_write() {
    let Some(mut cluster) = Cluster::start().await else {
        return;
    };
    let client = Client::new(cluster.ports());
    under_load(&client, async |load| {
        for _ in 0..3 {
            load.calls(100).await;
            let leader = cluster.leader().await;
            cluster.kill(leader);
            load.calls(100).await;
            cluster.restart(leader).await;
        }
        load.calls(100).await;
    })
    .await;
}

#[tokio::test]
async fn a_stopped_member_loses_no_read_and_doubles_no_write() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let client = Client::new(cluster.ports());
    under_load(&client, async |load| {
        for follower in [false, true] {
            load.calls(100).await;
            let leader = cluster.leader().await;
            let stopped = (leader + usize::from(follower)) % 3;
            cluster.stop(stopped);
            load.calls(60).await;
            cluster.go_on(stopped);
        }
        load.calls(100).await;
    })
    .await;
}

#[tokio::test]
async fn reset_connections_lose_no_read_and_double_no_write() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let mut proxies = Vec::new();
    for port in cluster.ports() {
        proxies.push(Proxy::start(port).await);
    }
    let ports = [0, 1, 2].map(|n: usize| proxies[n].port());
    let client = Client::new(ports);
    under_load(&client, async |load| {
        for n in 0..45 {
            load.calls(20).await;
            proxies[n % 3].reset();
        }
        load.calls(100).await;
    })
    .await;
}
