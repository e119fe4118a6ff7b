//! Clusters of several nodes, one of which fails.

use reattempt_testbed::kv::{Cluster, Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answers, each, with};

/// The calls for these keys; the later ones start after a delay.
fn before_and_after(key: &str, op: &str) -> Value {
    json!([
        {"call": "before", "op": "set", "key": key, "value": HELLO, "timeout_ms": 20_000},
        {"call": "after", "op": op, "key": key, "value": HELLO, "timeout_ms": 20_000, "start_delay_ms": 800},
    ])
}

async fn until_seen(node: &Node) {
    while node.seen_data().is_empty() {
        tokio::time::sleep(millis(5)).await;
    }
}

/// C13 C47 C48: the failure triggers a poll of another node, and the write goes to the new owner.
#[tokio::test]
async fn a_node_that_dies_is_left_by_the_configuration_of_another() {
    for op in ["append", "get"] {
        let cluster = Cluster::start(3).await.unwrap();
        let key = cluster.key_of(2, "key").unwrap();
        let document = seeded(&cluster, before_and_after(&key, op));
        let document = with(document, "config_poll_interval_ms", json!(60_000));
        let running = tokio::spawn(answers(document));
        until_seen(cluster.node(2)).await;
        cluster.fail_over(2).await;
        let (epoch, rev) = cluster.revision();
        let answers = running.await.unwrap();
        let after = &answers[1];
        assert_eq!(after["status"], 0, "{after}");
        assert_eq!(after["config_revision"], json!([epoch, rev]));
        assert_eq!(after["reasons"], json!(["NODE_NOT_AVAILABLE"]));
        let dead = json!(cluster.node(2).addr().to_string());
        let backends = each(after, "backend");
        assert_eq!(backends[0], dead, "{after}");
        assert_ne!(*backends.last().unwrap(), dead, "{after}");
        assert_eq!(each(after, "stage")[0], "dispatch");
        assert!(backends.len() <= 9, "{after}");
        assert_eq!(each(after, "n").len(), backends.len());
    }
}

/// C12 C48: requests in flight on a dying node are lost; a read is retried at the new owner.
#[tokio::test]
async fn what_is_out_when_its_node_dies_is_judged_by_what_it_is() {
    for (op, stopped) in [("get", "success"), ("set", "not_idempotent")] {
        let cluster = Cluster::start(3).await.unwrap();
        let key = cluster.key_of(2, "key").unwrap();
        cluster.store().put(key.clone(), "hello");
        cluster.node(2).script().push(Step::hang());
        let call = json!({"op": op, "key": key, "value": HELLO, "timeout_ms": 20_000});
        let document = seeded(&cluster, json!([call]));
        let document = with(document, "config_poll_interval_ms", json!(60_000));
        let running = tokio::spawn(answers(document));
        until_seen(cluster.node(2)).await;
        cluster.fail_over(2).await;
        let answer = running.await.unwrap().remove(0);
        assert_eq!(answer["stopped"], stopped, "{answer}");
        assert_eq!(answer["reasons"][0], "SOCKET_CLOSED_WHILE_IN_FLIGHT");
        assert_eq!(each(&answer, "stage")[0], "in_flight");
        let elsewhere = cluster.node(0).seen_data().len() + cluster.node(1).seen_data().len();
        assert_eq!(elsewhere, usize::from(op == "get"));
        if op == "get" {
            assert_eq!(answer["value"], HELLO, "{answer}");
        }
    }
}

/// Within the floor no node is polled: the back-off continues until the floor has passed.
#[tokio::test]
async fn the_floor_holds_the_second_question_back() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(1, "key").unwrap();
    cluster.kill(1).await;
    let call = json!({"op": "set", "key": key, "value": HELLO, "timeout_ms": 20_000});
    let document = with(
        seeded(&cluster, json!([call])),
        "config_poll_interval_ms",
        json!(60_000),
    );
    let document = with(document, "config_poll_floor_ms", json!(1200));
    let running = tokio::spawn(answers(document));
    while configs(cluster.node(0)) < 2 {
        tokio::time::sleep(millis(5)).await;
    }
    let asked = tokio::time::Instant::now();
    cluster.fail_over(1).await;
    let after = running.await.unwrap().remove(0);
    assert_eq!(after["status"], 0, "{after}");
    assert!(asked.elapsed() > millis(1100), "{after}");
    assert_eq!(each(&after, "delay_ms")[..6], [1, 2, 4, 8, 16, 32]);
    assert_eq!(
        configs(cluster.node(0)),
        3,
        "the set-up, the first error, and one after the floor"
    );
}

/// No node takes over: retried until the deadline, and never sent.
#[tokio::test]
async fn a_node_that_nobody_replaces_is_tried_until_the_deadline() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(1, "key").unwrap();
    cluster.kill(1).await;
    let call = json!({"op": "append", "key": key, "value": HELLO, "timeout_ms": 700});
    let other = json!({"op": "get", "key": cluster.key_of(0, "key"), "timeout_ms": 20_000});
    let answers = answers(seeded(&cluster, json!([call, other]))).await;
    assert_eq!(answers[0]["stopped"], "deadline", "{answers:?}");
    assert_eq!(answers[0]["timeout"], "unambiguous");
    assert_eq!(each(&answers[0], "delay_ms")[..6], [1, 2, 4, 8, 16, 32]);
    assert_eq!(answers[1]["status"], 1, "the other node serves its keys");
}

/// C50: the vbucket has no owner for a while.
#[tokio::test]
async fn a_vbucket_without_an_owner_waits_for_one() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(1, "key").unwrap();
    let vbucket = cluster.vbucket_of(key.as_bytes());
    cluster.move_vbucket(vbucket, None);
    let call = json!({"op": "append", "key": key, "value": HELLO, "timeout_ms": 20_000});
    cluster.store().put(key, "v");
    let document = with(
        seeded(&cluster, json!([call])),
        "config_poll_interval_ms",
        json!(100),
    );
    let running = tokio::spawn(answers(document));
    tokio::time::sleep(millis(300)).await;
    cluster.move_vbucket(vbucket, Some(0));
    let answer = running.await.unwrap().remove(0);
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(answer["reasons"], json!(["NODE_NOT_AVAILABLE"]));
    assert_eq!(
        cluster.node(0).seen_data().len() + cluster.node(1).seen_data().len(),
        1
    );
}

/// A request without a key goes to any node with key-value service, never to another.
#[tokio::test]
async fn a_node_that_serves_no_keys_is_sent_none() {
    let node = Node::start().await.unwrap();
    let mut config: Value = serde_json::from_slice(&node.config_json()).unwrap();
    let nodes = config["nodesExt"].as_array_mut().unwrap();
    nodes.push(json!({"hostname": "127.0.0.1", "services": {"n1ql": 1}}));
    let config = Step::status(0).body(config.to_string());
    node.script().push(config.only(opcode::GET_CLUSTER_CONFIG));
    let answers = answers(several(
        &node,
        json!([{"op": "noop"}, {"op": "noop"}, {"op": "noop"}]),
    ))
    .await;
    for answer in answers {
        assert_eq!(answer["status"], 0, "{answer}");
        assert_eq!(each(&answer, "backend"), [node.addr().to_string()]);
    }
}

/// RFC 0024, Conclusion: a node that accepts requests and never answers is an error like any other.
#[tokio::test]
async fn an_unresponsive_node_triggers_a_poll_of_another_at_deadline() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(0, "key").unwrap();
    let silent = Step::execute().after(millis(20_000));
    cluster.node(0).script().push(silent);
    let call = json!({"op": "append", "key": key, "value": HELLO, "timeout_ms": 300});
    let seed = json!([cluster.node(0).addr().to_string()]);
    let document = with(
        couchbase(seed, json!([call])),
        "config_poll_interval_ms",
        json!(60_000),
    );
    let answer = answers(with(document, "linger_ms", json!(600)))
        .await
        .remove(0);
    assert_eq!(answer["timeout"], "ambiguous", "{answer}");
    assert_eq!(configs(cluster.node(1)), 1);
}

/// RFC 0024: with an alternate address as seed, the other nodes are reached by their alternate
/// addresses.
#[tokio::test]
async fn a_cluster_is_reached_by_its_alternate_addresses() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(1, "key").unwrap();
    let mut config: Value = serde_json::from_slice(&cluster.node(0).config_json()).unwrap();
    for (at, address) in cluster.addresses().iter().enumerate() {
        let inside = format!("n{at}.invalid");
        config["vBucketServerMap"]["serverList"][at] = json!(format!("{inside}:11210"));
        config["nodesExt"][at] = json!({
            "hostname": inside,
            "services": {"kv": 11210},
            "alternateAddresses": {"external": {"hostname": "127.0.0.1", "ports": {"kv": address.port()}}},
        });
    }
    config.as_object_mut().unwrap().remove("nodes");
    let config = Step::status(0).body(config.to_string());
    let node = cluster.node(0);
    node.script().push(config.only(opcode::GET_CLUSTER_CONFIG));
    let call = json!({"op": "set", "key": key, "value": HELLO, "timeout_ms": 5_000});
    let answer = answers(seeded(&cluster, json!([call]))).await.remove(0);
    assert_eq!(answer["status"], 0, "{answer}");
    let owner = cluster.node(1).addr().to_string();
    assert_eq!(each(&answer, "backend"), [owner], "{answer}");
}
