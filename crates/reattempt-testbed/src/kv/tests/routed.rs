use std::sync::{Arc, Mutex};

use reattempt_couchbase::{ClusterConfig, ConfigStore};

use super::{couchbase, send};
use crate::kv::{
    ClientError, ClientOptions, Cluster, KvRequest, Node, RoutedClient, SendStage, VbucketMap,
    map_of, opcode, status, vbucket_of,
};

type Current = Arc<Mutex<Option<Arc<VbucketMap>>>>;

/// A client that applies every newer configuration that it receives.
fn client(seeds: &[String]) -> (RoutedClient, Current) {
    let current = Current::default();
    let (write, read) = (current.clone(), current.clone());
    let options = couchbase().on_config(move |body, host| {
        let map = VbucketMap::from_json(body, host).expect("map");
        let mut current = write.lock().expect("lock");
        let newer = current
            .as_ref()
            .is_none_or(|old| (map.rev_epoch, map.rev) > (old.rev_epoch, old.rev));
        if newer {
            *current = Some(Arc::new(map));
        }
    });
    let seeds = seeds.iter().map(String::as_str);
    (
        RoutedClient::new(seeds, options, move || read.lock().expect("lock").clone()),
        current,
    )
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
async fn keys_go_to_the_node_that_owns_them() {
    let cluster = Cluster::start(3).await.expect("cluster");
    let (mut client, _) = client(&addresses(&cluster)[..1]);
    for node in 0..3 {
        let key = cluster.key_of(node, "k").expect("key");
        let answer = send(&mut client, KvRequest::set(key.clone(), "v", 0, 0))
            .await
            .expect("set");
        assert!(answer.is_success());
        assert_eq!(answer.node.as_ref(), cluster.node(node).addr().to_string());
        assert_eq!(
            client.node_of(key.as_bytes()),
            Some(answer.node.to_string())
        );
        let seen = cluster.node(node).seen_data();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].vbucket, cluster.vbucket_of(key.as_bytes()));
        assert!(client.error_map_json(&answer.node).is_some());
    }
}

/// C33
#[tokio::test]
async fn a_moved_key_is_refused_with_a_configuration_that_finds_it() {
    let cluster = Cluster::builder()
        .host_placeholder()
        .start_cluster(2)
        .await
        .expect("cluster");
    let (mut client, current) = client(&addresses(&cluster));
    let key = cluster.key_of(0, "k").expect("key");
    assert!(
        send(&mut client, KvRequest::set(key.clone(), "v", 0, 0))
            .await
            .expect("set")
            .is_success()
    );
    cluster.move_vbuckets(0, 1);
    let refused = send(&mut client, KvRequest::get(key.clone()))
        .await
        .expect("answer");
    assert_eq!(refused.status, status::NOT_MY_VBUCKET);
    assert_eq!(refused.value, cluster.node(0).config_json());
    assert_eq!(
        current.lock().expect("lock").as_ref().map(|map| map.rev),
        Some(2)
    );
    let found = send(&mut client, KvRequest::get(key))
        .await
        .expect("answer");
    assert_eq!(
        (found.value, found.node.as_ref()),
        ("v".into(), &*addresses(&cluster)[1])
    );
}

#[tokio::test]
async fn observe_checks_the_vbucket_in_its_body() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let (mut client, _) = client(&addresses(&cluster));
    let key = cluster.key_of(1, "k").expect("key");
    assert!(
        send(&mut client, KvRequest::observe(key.clone()))
            .await
            .expect("observe")
            .is_success()
    );
    cluster.move_vbuckets(1, 0);
    let refused = send(&mut client, KvRequest::observe(key))
        .await
        .expect("answer");
    assert_eq!(refused.status, status::NOT_MY_VBUCKET);
}

#[tokio::test]
async fn a_vbucket_without_owner_is_no_node() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let (mut client, _) = client(&addresses(&cluster));
    let vbucket = cluster.vbucket_of(b"k");
    cluster.move_vbucket(vbucket, None);
    let error = send(&mut client, KvRequest::get("k"))
        .await
        .expect_err("nobody");
    assert!(matches!(error, ClientError::NoNode { vbucket: Some(found), .. } if found == vbucket));
    assert_eq!(error.stage(), SendStage::NeverSent);
}

#[tokio::test]
async fn dead_seeds_are_passed_over_and_dead_nodes_come_back() {
    let cluster = Cluster::start(3).await.expect("cluster");
    cluster.kill(0).await;
    let (mut client, _) = client(&addresses(&cluster));
    let key = cluster.key_of(2, "k").expect("key");
    assert!(
        send(&mut client, KvRequest::set(key, "v", 0, 0))
            .await
            .expect("set")
            .is_success()
    );
    let lost = cluster.key_of(0, "k").expect("key");
    let error = send(&mut client, KvRequest::get(lost.clone()))
        .await
        .expect_err("dead");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    assert_eq!(error.address(), Some(&*addresses(&cluster)[0]));
    cluster.restart(0).await.expect("restart");
    let answer = send(&mut client, KvRequest::get(lost.clone()))
        .await
        .expect("answer");
    assert_eq!(answer.status, status::KEY_ENOENT);
    cluster.fail_over(0).await;
    assert_ne!(cluster.owner_of(lost.as_bytes()), Some(0));
    assert_eq!(cluster.revision(), (1, 2));
}

#[tokio::test]
async fn all_seeds_dead_is_a_connect_error_and_none_is_no_node() {
    let cluster = Cluster::start(2).await.expect("cluster");
    cluster.kill(0).await;
    cluster.kill(1).await;
    let (mut routed, _) = client(&addresses(&cluster));
    let error = send(&mut routed, KvRequest::get("k"))
        .await
        .expect_err("dead");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let (mut routed, _) = client(&[]);
    let error = send(&mut routed, KvRequest::get("k"))
        .await
        .expect_err("no seeds");
    assert!(
        matches!(error, ClientError::NoNode { vbucket: None, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn without_bootstrap_keys_are_dealt_out_over_the_seeds() {
    let (one, two) = (
        Node::start().await.expect("node"),
        Node::start().await.expect("node"),
    );
    let seeds = [one.addr().to_string(), two.addr().to_string()];
    let seeds = seeds.iter().map(String::as_str);
    let mut client = RoutedClient::new(seeds, ClientOptions::memcached(), || None);
    for n in 0..16 {
        let request = KvRequest::set(format!("k{n}"), "v", 0, 0);
        assert!(send(&mut client, request).await.expect("set").is_success());
    }
    assert_eq!(one.store().len() + two.store().len(), 16);
    assert!(!one.store().is_empty() && !two.store().is_empty());
    assert!(
        one.seen()
            .iter()
            .all(|request| request.opcode == opcode::SET)
    );
}

#[tokio::test]
async fn what_has_no_key_goes_round() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let (mut client, _) = client(&addresses(&cluster));
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

/// A node of a cluster may have only other services.
#[tokio::test]
async fn what_has_no_key_goes_to_nodes_with_the_key_value_service() {
    let node = Node::start().await.expect("node");
    let (host, port) = (node.addr().ip(), node.addr().port());
    let config = format!(
        r#"{{"rev": 1, "name": "default", "nodesExt": [
            {{"hostname": "{host}", "services": {{"n1ql": 8093}}}},
            {{"hostname": "{host}", "services": {{"kv": {port}}}}},
            {{"hostname": "{host}", "services": {{"fts": 8094}}}}],
        "vBucketServerMap": {{"serverList": ["{host}:{port}"], "vBucketMap": [[0]]}}}}"#
    );
    let store = ConfigStore::new();
    let config = ClusterConfig::parse(config.as_bytes(), "").expect("a configuration");
    store.compare_and_swap(config);
    let seed = node.addr().to_string();
    let mut client = RoutedClient::new([seed.as_str()], couchbase(), map_of(store));
    assert_eq!(client.addresses(), [seed.as_str()]);
    for _ in 0..3 {
        let answer = send(&mut client, KvRequest::noop()).await.expect("answer");
        assert_eq!(answer.node.as_ref(), seed);
    }
    let answer = send(&mut client, KvRequest::set("k", "v", 0, 0)).await;
    assert!(answer.expect("answer").is_success());
}
