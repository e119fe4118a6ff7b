//! Fields of documents and answers.

use reattempt_testbed::kv::{Cluster, Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, assert_times, each, ms, with};

#[tokio::test]
async fn documents_are_written_and_read() {
    let node = Node::start().await.unwrap();
    let calls = json!([
        {"call": "set", "op": "set", "key": "k", "value": HELLO},
        {"call": "get", "op": "get", "key": "k"},
        {"call": "none", "op": "get", "key": "other"},
        {"call": "noop", "op": "noop"},
    ]);
    let answers = answers(couchbase(json!([node.addr().to_string()]), calls)).await;
    let status: Vec<_> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(status, [0, 0, 1, 0], "{answers:?}");
    assert_eq!(answers[1]["value"], HELLO);
    assert_eq!(answers[1]["cas"], answers[0]["cas"]);
    assert!(answers[1]["cas"].as_u64().unwrap() > 0);
    let (epoch, rev) = node.revision();
    assert_eq!(answers[1]["config_revision"], json!([epoch, rev]));
    assert_eq!(answers[1]["stopped"], "success");
    assert_eq!(answers[2]["stopped"], "fatal");
    assert_eq!(each(&answers[2], "verdict"), ["fatal"]);
    assert_eq!(each(&answers[1], "backend"), [node.addr().to_string()]);
}

#[tokio::test]
async fn a_temporary_failure_is_sent_again_and_told() {
    let node = Node::scripted([
        Step::status(TEMPORARY_FAILURE),
        Step::status(TEMPORARY_FAILURE),
    ]);
    let node = node.await.unwrap();
    let call = json!({"op": "set", "key": "k", "value": HELLO, "timeout_ms": 20_000});
    let answer = answer(one(&node, call)).await;
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(answer["reasons"], json!(["KV_TEMPORARY_FAILURE"]));
    assert_eq!(each(&answer, "kind"), ["initial", "retry", "retry"]);
    assert_eq!(each(&answer, "delay_ms"), [json!(1), json!(2), Value::Null]);
    assert_times(&answer);
}

#[tokio::test]
async fn the_strategy_is_the_documents() {
    for (strategy, attempts, stopped) in [
        (json!("fail_fast"), 1, "strategy"),
        (json!({"constant_ms": 5, "max_attempts": 3}), 3, "attempts"),
    ] {
        let steps = vec![Step::status(TEMPORARY_FAILURE); 5];
        let node = Node::scripted(steps).await.unwrap();
        let call = json!({"op": "get", "key": "k", "timeout_ms": 20_000});
        let answer = answer(with(one(&node, call), "strategy", strategy)).await;
        assert_eq!(answer["status"], TEMPORARY_FAILURE);
        assert_eq!(each(&answer, "n").len(), attempts, "{answer}");
        assert_eq!(answer["stopped"], stopped);
    }
}

#[tokio::test]
async fn the_nodes_own_error_map_says_what_an_unknown_status_means() {
    let map = r#"{"version": 2, "revision": 1, "errors": {
        "ff0": {"name": "BUSY", "desc": "busy", "attrs": ["auto-retry"],
            "retry": {"strategy": "constant", "interval": 30, "after": 30, "ceil": 30, "max-duration": 5000}},
        "ff1": {"name": "NO", "desc": "no", "attrs": []}
    }}"#;
    for (status, strategy, reasons) in [
        (0xff0, "error_map", json!(["KV_ERROR_MAP_RETRY_INDICATED"])),
        (
            0xff0,
            "best_effort",
            json!(["KV_ERROR_MAP_RETRY_INDICATED"]),
        ),
        (0xff1, "error_map", json!([])),
    ] {
        let node = Node::builder().error_map(map).start().await.unwrap();
        node.script().push(Step::status(status));
        let call = json!({"op": "set", "key": "k", "timeout_ms": 20_000});
        let answer = answer(with(one(&node, call), "strategy", json!(strategy))).await;
        assert_eq!(answer["reasons"], reasons, "{answer}");
        if status == 0xff0 {
            let delay = if strategy == "error_map" { 30 } else { 1 };
            assert_eq!(each(&answer, "delay_ms")[0], delay, "{strategy}");
        }
    }
}

#[tokio::test]
async fn a_write_that_waits_for_a_connection_was_never_sent() {
    let node = Node::start().await.unwrap();
    node.script().push(Step::hang().only(opcode::HELLO));
    let call = json!({"op": "append", "key": "k", "value": HELLO, "timeout_ms": 500});
    let answer = answer(one(&node, call)).await;
    assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    assert_eq!(each(&answer, "stage"), ["dispatch"]);
    assert!(node.seen_data().is_empty());
}

#[tokio::test]
async fn a_write_with_a_lost_answer_is_retried_if_the_call_allows() {
    for (call, stopped) in [
        (json!({"op": "append", "key": "k"}), "not_idempotent"),
        (
            json!({"op": "append", "key": "k", "idempotent": true}),
            "success",
        ),
        (json!({"op": "get", "key": "k"}), "success"),
    ] {
        let node = Node::start().await.unwrap();
        let set = json!({"op": "set", "key": "k", "value": HELLO});
        let mut call = call;
        call["timeout_ms"] = json!(20_000);
        answer(one(&node, set)).await;
        node.script().push(Step::lost_answer());
        let answer = answer(one(&node, call)).await;
        assert_eq!(answer["stopped"], stopped, "{answer}");
        assert_eq!(answer["reasons"], json!(["SOCKET_CLOSED_WHILE_IN_FLIGHT"]));
        assert_eq!(each(&answer, "stage")[0], "in_flight");
    }
}

#[tokio::test]
async fn a_key_that_moved_is_followed_by_the_newer_configuration() {
    let cluster = Cluster::start(2).await.unwrap();
    let key = cluster.key_of(0, "key").unwrap();
    let targets: Vec<_> = cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let calls = json!([
        {"call": "before", "op": "set", "key": key, "value": HELLO, "timeout_ms": 20_000},
        {"call": "after", "op": "get", "key": key, "timeout_ms": 20_000, "start_delay_ms": 2_000},
    ]);
    let document = couchbase(json!(targets), calls);
    // No poll happens in between: the response itself must provide the newer configuration.
    let document = with(document, "config_poll_interval_ms", json!(60_000));
    let running = tokio::spawn(answers(document));
    while cluster.node(0).seen_data().is_empty() {
        tokio::time::sleep(millis(5)).await;
    }
    cluster.move_vbuckets(0, 1);
    let answers = running.await.unwrap();
    let after = &answers[1];
    assert_eq!(after["status"], 0, "{after}");
    assert_eq!(after["value"], HELLO);
    assert_eq!(after["reasons"], json!(["KV_NOT_MY_VBUCKET"]));
    assert_eq!(
        each(after, "backend"),
        [json!(targets[0]), json!(targets[1])]
    );
    let (epoch, rev) = cluster.revision();
    assert_eq!(after["config_revision"], json!([epoch, rev]));
}

#[tokio::test]
async fn memcached_servers_need_no_bootstrap() {
    let node = Node::start().await.unwrap();
    let call = json!({"op": "set", "key": "k", "value": HELLO});
    let answer = answer(with(one(&node, call), "bootstrap", json!("memcached"))).await;
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(answer["config_revision"], Value::Null);
    assert_eq!(node.seen().len(), 1, "{:?}", node.seen());
}

#[tokio::test]
async fn a_timeout_keeps_the_last_status_and_its_ambiguity() {
    let node = Node::scripted(vec![Step::status(TEMPORARY_FAILURE); 500])
        .await
        .unwrap();
    let call = json!({"op": "append", "key": "k", "timeout_ms": 1500});
    let busy = answer(one(&node, call)).await;
    assert_eq!(busy["status"], TEMPORARY_FAILURE);
    assert_eq!(busy["stopped"], "deadline");
    assert_eq!(busy["timeout"], "unambiguous", "{busy}");
    assert!(ms(&busy["elapsed_ms"]) >= 1499.0);

    let node = Node::scripted([Step::hang()]).await.unwrap();
    let call = json!({"op": "append", "key": "k", "timeout_ms": 1500});
    let hangs = answer(one(&node, call)).await;
    assert_eq!(hangs["status"], Value::Null);
    assert_eq!(hangs["timeout"], "ambiguous", "{hangs}");
    assert_eq!(each(&hangs, "verdict"), ["cancelled"]);
}
