use reattempt_clients::kv::{ClientError, KvRequest, RoutedClient, map_of, offer_to, vbucket_of};
use reattempt_couchbase::ConfigStore;
use reattempt_testbed::kv::Cluster;

use super::{couchbase, send};

/// A client that applies every newer configuration that it receives.
fn client(seeds: &[String]) -> RoutedClient {
    let store = ConfigStore::new();
    let options = couchbase().on_config(offer_to(store.clone()));
    let seeds = seeds.iter().map(String::as_str);
    RoutedClient::new(seeds, options, map_of(store))
}

fn addresses(cluster: &Cluster) -> Vec<String> {
    cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn keys_hash_as_every_client_hashes_them() {
    // CRC32 of "123456789" is 0xcbf43926, its check value.
    assert_eq!(vbucket_of(b"123456789", 1024), (0xcbf4 & 0x7fff) % 1024);
    assert_eq!(vbucket_of(b"123456789", 0), 0);
}

#[tokio::test]
async fn all_seeds_dead_is_a_connect_error_and_none_is_no_node() {
    let cluster = Cluster::start(2).await.expect("cluster");
    cluster.kill(0).await;
    cluster.kill(1).await;
    let mut routed = client(&addresses(&cluster));
    let error = send(&mut routed, KvRequest::get("k"))
        .await
        .expect_err("dead");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let mut routed = client(&[]);
    let error = send(&mut routed, KvRequest::get("k"))
        .await
        .expect_err("no seeds");
    assert!(
        matches!(error, ClientError::NoNode { vbucket: None, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn what_has_no_key_goes_round() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let mut client = client(&addresses(&cluster));
    let mut nodes = std::collections::HashSet::new();
    for _ in 0..4 {
        nodes.insert(
            send(&mut client, KvRequest::noop())
                .await
                .expect("answer")
                .node,
        );
    }
    assert_eq!(nodes.len(), 2);
    let config = KvRequest::get_cluster_config(None);
    let mut second = client.node(&addresses(&cluster)[1]);
    let answer = send(&mut second, config).await.expect("config");
    assert_eq!(answer.value, cluster.node(1).config_json());
}
