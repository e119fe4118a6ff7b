//! Lists of nodes as the target.

use reattempt_testbed::kv::{Cluster, Node, Step, opcode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::{answer, answers, each, ms, with};

/// An address without a listener.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

fn targets(list: &[String], call: Value) -> Value {
    couchbase(json!(list), json!([call]))
}

#[tokio::test]
async fn a_dead_first_node_is_passed_by() {
    let node = Node::start().await.unwrap();
    let (dead, gone) = (nobody().await, nobody().await);
    let answer = answer(targets(&[dead, gone, node.addr().to_string()], get())).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert_eq!(each(&answer, "n"), [1]);
    assert_eq!(each(&answer, "backend"), [node.addr().to_string()]);
    assert!(ms(&answer["elapsed_ms"]) < 1000.0, "{answer}");
}

/// It accepts the connection and never responds.
#[tokio::test]
async fn a_first_node_that_is_silent_is_passed_by() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = Node::start().await.unwrap();
    let list = [
        silent.local_addr().unwrap().to_string(),
        node.addr().to_string(),
    ];
    let mut call = write();
    call["timeout_ms"] = json!(2500);
    let answer = answer(targets(&list, call)).await;
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(each(&answer, "backend"), [node.addr().to_string()]);
    assert!(ms(&answer["elapsed_ms"]) < 2000.0, "{answer}");
}

/// The bootstrap provides the whole configuration; keys go to their owners.
#[tokio::test]
async fn one_seed_of_many_is_enough() {
    let cluster = Cluster::start(3).await.unwrap();
    let key = |node| cluster.key_of(node, "key").unwrap();
    let call = |node| json!({"op": "set", "key": key(node), "value": HELLO, "timeout_ms": 20_000});
    let calls = json!([call(0), call(1), call(2)]);
    let list = json!([nobody().await, cluster.node(1).addr().to_string()]);
    let answers = answers(couchbase(list, calls)).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer["status"], 0, "{answer}");
        assert_eq!(
            each(answer, "backend"),
            [cluster.node(n).addr().to_string()]
        );
        assert_eq!(cluster.node(n).seen_data().len(), 1);
    }
}

#[tokio::test]
async fn where_all_are_dead_nothing_was_sent() {
    let list = [nobody().await, nobody().await];
    let mut call = write();
    call["timeout_ms"] = json!(300);
    let timed_out = answer(targets(&list, call.clone())).await;
    assert_eq!(timed_out["stopped"], "deadline", "{timed_out}");
    assert_eq!(timed_out["timeout"], "unambiguous");
    assert_eq!(timed_out["reasons"], json!(["NODE_NOT_AVAILABLE"]));
    assert_eq!(timed_out["config_revision"], Value::Null);
    let strategy = json!({"constant_ms": 5, "max_attempts": 3});
    let refused = answer(with(targets(&list, call), "strategy", strategy)).await;
    assert_eq!(refused["stopped"], "attempts", "{refused}");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("cannot connect"),
        "{refused}"
    );
}

/// A seed that refuses the bucket is skipped as well.
#[tokio::test]
async fn a_seed_of_another_cluster_is_passed_by() {
    let other = Node::builder().bucket("other").start().await.unwrap();
    let node = Node::start().await.unwrap();
    let list = [other.addr().to_string(), node.addr().to_string()];
    let answer = answer(targets(&list, get())).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert!(other.seen_data().is_empty());
    assert_eq!(seen(&node, opcode::GET).len(), 1);
}

/// A bucket without vbuckets yet: the node responds itself until there are some.
#[tokio::test]
async fn without_a_map_the_node_answers_until_there_is_one() {
    let node = Node::start().await.unwrap();
    let port = node.addr().port();
    let young = json!({"rev": 1, "revEpoch": 0, "name": "default", "nodeLocator": "vbucket",
        "nodesExt": [{"hostname": "127.0.0.1", "services": {"kv": port}}],
        "vBucketServerMap": {"hashAlgorithm": "CRC", "serverList": [node.addr().to_string()], "vBucketMap": []}});
    node.script().push(
        Step::status(0)
            .body(young.to_string())
            .only(opcode::GET_CLUSTER_CONFIG),
    );
    node.script().push(Step::not_my_vbucket());
    let answer = answer(targets(&[node.addr().to_string()], get())).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert_eq!(answer["config_revision"], json!([1, 1]));
}
