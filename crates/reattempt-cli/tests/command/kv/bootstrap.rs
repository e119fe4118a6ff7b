//! Connection bootstrap.

use reattempt_testbed::kv::node::{FEATURE_COLLECTIONS, FEATURE_XERROR};
use reattempt_testbed::kv::sasl::Mechanism;
use reattempt_testbed::kv::{Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, with};

fn several(node: &Node, calls: Value) -> Value {
    logged_in(super::several(node, calls))
}

fn one(node: &Node, call: Value) -> Value {
    several(node, json!([call]))
}

fn opcodes(node: &Node) -> Vec<u8> {
    node.seen().iter().map(|request| request.opcode).collect()
}

/// Once per connection, in this order.
#[tokio::test]
async fn a_connection_is_set_up_in_the_order_of_the_contract() {
    let node = Node::builder().require_auth().start().await.unwrap();
    let answers = answers(several(&node, json!([get(), get()]))).await;
    assert!(
        answers.iter().all(|answer| answer["status"] == 1),
        "{answers:?}"
    );
    assert_eq!(
        opcodes(&node),
        [
            opcode::HELLO,
            opcode::GET_ERROR_MAP,
            opcode::SASL_LIST_MECHS,
            opcode::SASL_AUTH,
            opcode::SASL_STEP,
            opcode::SELECT_BUCKET,
            opcode::GET_CLUSTER_CONFIG,
            opcode::GET,
            opcode::GET,
        ]
    );
    let seen = node.seen();
    assert_eq!(
        seen[1].value,
        [0, 2].as_slice(),
        "C25: version 2 is asked for"
    );
    assert_eq!(seen[5].key, "default");
    assert!(seen[6].extras.is_empty(), "nothing is known yet");
    let asked: Vec<_> = seen[0]
        .value
        .chunks(2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
        .collect();
    assert!(asked.contains(&FEATURE_XERROR), "{asked:?}");
    let agent: Value = serde_json::from_slice(&seen[0].key).unwrap();
    assert!(agent["a"].is_string() && agent["i"].is_string(), "{agent}");
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn memcached_servers_are_asked_nothing_but_the_calls() {
    let node = Node::builder()
        .error_map(r#"{"version":1,"revision":1,"errors":{"ff0":{"attrs":["retry-now"]}}}"#);
    let node = node.start().await.unwrap();
    node.script().push(Step::status(0x86));
    node.script().push(Step::execute());
    node.script().push(Step::status(0xff0));
    let document = with(
        several(&node, json!([write(), write()])),
        "bootstrap",
        json!("memcached"),
    );
    let document = with(document, "config_poll_interval_ms", json!(20));
    let answers = answers(with(document, "linger_ms", json!(100))).await;
    assert_eq!(
        answers[0]["reasons"],
        json!(["KV_TEMPORARY_FAILURE"]),
        "the retry list applies without a map"
    );
    assert_final(&answers[1], 0xff0);
    assert_eq!(answers[0]["config_revision"], Value::Null);
    assert_eq!(opcodes(&node), [opcode::SET; 3]);
}

#[tokio::test]
async fn several_memcached_servers_share_the_keys() {
    let nodes = [Node::start().await.unwrap(), Node::start().await.unwrap()];
    let targets: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
    let set = |n| json!({"op": "set", "key": format!("k{n}"), "value": HELLO});
    let calls: Vec<_> = (0..20).map(set).collect();
    let document = couchbase(json!(targets), json!(calls));
    let answers = answers(with(document, "bootstrap", json!("memcached"))).await;
    assert!(answers.iter().all(|answer| answer["status"] == 0));
    let counts = nodes.each_ref().map(|node| node.seen_data().len());
    assert!(
        counts[0] > 0 && counts[1] > 0 && counts[0] + counts[1] == 20,
        "{counts:?}"
    );
}

/// A retry cannot succeed.
#[tokio::test]
async fn a_wrong_password_is_final_and_nothing_is_sent() {
    let node = Node::builder().require_auth().start().await.unwrap();
    for (name, value) in [("password", "wrong"), ("username", "nobody")] {
        node.forget_seen();
        let answer = answer(with(one(&node, get()), name, json!(value))).await;
        assert_eq!(answer["stopped"], "fatal", "{answer}");
        assert_eq!(answer["status"], Value::Null);
        assert_eq!(each(&answer, "verdict"), ["fatal"]);
        assert_eq!(each(&answer, "stage"), ["dispatch"]);
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains("refused the login"), "{error}");
        assert!(node.seen_data().is_empty());
        assert_eq!(seen(&node, opcode::SELECT_BUCKET).len(), 0);
    }
}

/// The node did not check the password: never sent, so it is retried.
#[tokio::test]
async fn a_login_that_the_node_cannot_judge_now_is_tried_again() {
    let not_now = Step::status(TEMPORARY_FAILURE).only(opcode::SASL_AUTH);
    let node = Node::builder().require_auth().start().await.unwrap();
    node.script().push(not_now);
    let answer = answer(one(&node, write())).await;
    assert_eq!(answer["status"], 0, "{answer}");
    assert_eq!(answer["reasons"], json!(["NODE_NOT_AVAILABLE"]));
    assert_eq!(each(&answer, "stage")[0], "dispatch");
    assert_eq!(node.seen_data().len(), 1);
}

/// The bucket may be created soon: never sent, so it is retried until the deadline.
#[tokio::test]
async fn a_bucket_that_is_not_there_is_waited_for() {
    let node = Node::builder().require_auth().start().await.unwrap();
    let mut call = write();
    call["timeout_ms"] = json!(3_000);
    let document = with(one(&node, call), "bucket", json!("other"));
    let timed_out = answer(document.clone()).await;
    assert_eq!(timed_out["stopped"], "deadline", "{timed_out}");
    assert_eq!(timed_out["timeout"], "unambiguous");
    assert_eq!(timed_out["reasons"], json!(["NODE_NOT_AVAILABLE"]));
    assert!(
        each(&timed_out, "stage")
            .iter()
            .all(|stage| stage == "dispatch")
    );
    let refused = answer(with(document, "strategy", json!("fail_fast"))).await;
    assert_eq!(refused["stopped"], "strategy", "{refused}");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("SELECT_BUCKET with status 0x01"), "{error}");
    assert!(node.seen_data().is_empty());
}

/// The node's own status is returned.
#[tokio::test]
async fn without_a_bucket_none_is_selected() {
    let node = Node::builder().require_auth().start().await.unwrap();
    let document = with(
        several(&node, json!([get(), {"op": "noop"}])),
        "bucket",
        Value::Null,
    );
    let answers = answers(document).await;
    assert_final(&answers[0], 0x08);
    assert_eq!(seen(&node, opcode::SELECT_BUCKET).len(), 0);
    assert_eq!(
        node.seen_data()[0].vbucket,
        reattempt_testbed::kv::vbucket_of(b"k", 1024)
    );
}

#[tokio::test]
async fn without_a_user_there_is_no_login() {
    let node = Node::start().await.unwrap();
    let document = with(one(&node, get()), "username", Value::Null);
    let answer = answer(with(document, "password", Value::Null)).await;
    assert_eq!(answer["status"], 1, "{answer}");
    assert!(!opcodes(&node).contains(&opcode::SASL_AUTH));
}

/// The strongest mechanism offered; PLAIN only if the password stays on this machine.
#[tokio::test]
async fn the_login_takes_what_the_node_offers() {
    for (mechanisms, name, requests) in [
        (
            &[
                Mechanism::Plain,
                Mechanism::ScramSha1,
                Mechanism::ScramSha512,
            ][..],
            "SCRAM-SHA512",
            2,
        ),
        (&[Mechanism::ScramSha256], "SCRAM-SHA256", 2),
        (&[Mechanism::Plain], "PLAIN", 1),
    ] {
        let node = Node::builder()
            .require_auth()
            .mechanisms(mechanisms)
            .start()
            .await
            .unwrap();
        let answer = answer(one(&node, get())).await;
        assert_eq!(answer["status"], 1, "{answer}");
        let login: Vec<_> = node
            .seen()
            .into_iter()
            .filter(|seen| [0x21, 0x22].contains(&seen.opcode))
            .collect();
        assert_eq!(login.len(), requests);
        assert_eq!(login[0].key, name);
    }
}

/// An old node without HELLO, error map or list of mechanisms.
#[tokio::test]
async fn an_old_node_is_used_without_what_it_does_not_know() {
    let node = Node::start().await.unwrap();
    for op in [opcode::HELLO, opcode::GET_ERROR_MAP] {
        node.script().push(Step::status(0x81).only(op));
    }
    let old = answer(one(&node, get())).await;
    assert_eq!(old["status"], 1, "{old}");
    assert_eq!(
        node.seen_data()[0].collection,
        None,
        "the key has no prefix"
    );

    let node = Node::builder()
        .features(&[FEATURE_COLLECTIONS])
        .start()
        .await
        .unwrap();
    node.script().push(Step::status(0xff01));
    // The error map is unusable if the node did not agree to extended statuses.
    assert_final(&answer(one(&node, get())).await, 0xff01);
}

/// The request is sent to the node of the bootstrap, whose status is returned.
#[tokio::test]
async fn a_node_without_a_configuration_gets_the_request() {
    for status in [0x81, 0x83, 0x0d, 0x08] {
        let node = Node::builder().vbuckets(1024).start().await.unwrap();
        for _ in 0..8 {
            node.script()
                .push(Step::status(status).only(opcode::GET_CLUSTER_CONFIG));
        }
        let answer = answer(one(&node, get())).await;
        assert_eq!(answer["status"], 1, "{status:#x}: {answer}");
        assert_eq!(answer["config_revision"], Value::Null);
        assert_eq!(each(&answer, "n"), [1]);
    }
}

/// Never sent: even a non-idempotent request moves to a new connection.
#[tokio::test]
async fn a_set_up_that_breaks_off_is_begun_anew() {
    for op in [
        opcode::HELLO,
        opcode::SASL_AUTH,
        opcode::SELECT_BUCKET,
        opcode::GET_CLUSTER_CONFIG,
    ] {
        for step in [
            Step::close_before(),
            Step::reset(),
            Step::half_frame(),
            Step::bad_magic(),
            Step::absurd_length(),
        ] {
            let node = Node::start().await.unwrap();
            node.store().put("k", "v");
            node.script().push(step.only(op));
            let answer = answer(one(&node, write())).await;
            assert_eq!(answer["status"], 0, "{op:#x}: {answer}");
            assert_eq!(node.seen_data().len(), 1);
            assert_eq!(node.connections(), 2);
        }
    }
}
