//! Concurrent calls, cancelled calls, and invalid documents.

use reattempt_testbed::kv::{Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms, run, text, with};

fn parallel(document: Value) -> Value {
    with(document, "concurrency", json!("parallel"))
}

fn named<'a>(answers: &'a [Value], name: &str) -> &'a Value {
    answers
        .iter()
        .find(|answer| answer["call"] == name)
        .unwrap()
}

/// All on one connection; each answer is matched to its call.
#[tokio::test]
async fn parallel_calls_are_pipelined_and_answered_in_any_order() {
    let node = Node::start().await.unwrap();
    for n in 0..100 {
        node.store().put(format!("k{n}"), format!("value {n}"));
    }
    // The first is the slowest.
    let steps = (0..100).map(|n| Step::execute().after(millis(600 - 5 * n)));
    steps.for_each(|step| node.script().push(step));
    let call = |n: u32| json!({"call": n.to_string(), "op": "get", "key": format!("k{n}"), "timeout_ms": 20_000});
    let calls: Vec<_> = (0..100).map(call).collect();
    let answers = answers(parallel(several(&node, json!(calls)))).await;
    assert_eq!(answers.len(), 100);
    for answer in &answers {
        let n: u32 = answer["call"].as_str().unwrap().parse().unwrap();
        let value = base64(&format!("value {n}"));
        assert_eq!(answer["value"], value, "{answer}");
    }
    let seen = node.seen_data();
    assert!(
        seen[99].arrived - seen[0].arrived < millis(100),
        "none waits for another"
    );
    let mut opaques: Vec<_> = seen.iter().map(|seen| seen.opaque).collect();
    opaques.sort_unstable();
    opaques.dedup();
    assert_eq!((opaques.len(), node.connections()), (100, 1));
}

fn base64(text: &str) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn a_held_answer_may_be_overtaken() {
    let node = Node::scripted([Step::out_of_order(), Step::execute()])
        .await
        .unwrap();
    let calls = json!([
        {"call": "slow", "op": "get", "key": "a", "timeout_ms": 20_000},
        {"call": "fast", "op": "noop", "timeout_ms": 20_000, "start_delay_ms": 150},
    ]);
    let answers = answers(parallel(several(&node, calls))).await;
    assert_eq!(named(&answers, "slow")["status"], 1);
    assert_eq!(named(&answers, "fast")["status"], 0);
    assert_eq!(node.connections(), 1);
}

/// In flight, during a back-off, and before there is a connection.
#[tokio::test]
async fn a_caller_who_leaves_ends_the_call_at_once() {
    let busy = Step::status(TEMPORARY_FAILURE);
    let strategy = json!({"constant_ms": 5000, "max_attempts": 5});
    for (step, stage, verdict) in [
        (Step::hang(), "in_flight", "cancelled"),
        (busy, "response", "retry"),
        (Step::hang().only(0x1f), "dispatch", "cancelled"),
    ] {
        let node = Node::scripted([step]).await.unwrap();
        let mut call = write();
        call["cancel_after_ms"] = json!(400);
        let document = with(one(&node, call), "strategy", strategy.clone());
        let answer = answer(with(document, "linger_ms", json!(150))).await;
        assert_eq!(answer["stopped"], "cancelled", "{answer}");
        assert_eq!(answer["timeout"], Value::Null);
        assert_eq!(each(&answer, "verdict"), [verdict], "{answer}");
        assert_eq!(each(&answer, "stage"), [stage]);
        let elapsed = ms(&answer["elapsed_ms"]);
        assert!((399.0..400.0 + ROOM).contains(&elapsed), "{answer}");
        assert!(node.seen_data().len() <= 1);
    }
}

/// The late answer is ignored, and the other requests on the connection continue.
#[tokio::test]
async fn a_late_answer_to_a_call_that_left_is_ignored() {
    let late = Step::execute().after(millis(300));
    let node = Node::scripted([late.clone(), late]).await.unwrap();
    node.store().put("a", "late");
    let calls = json!([
        {"call": "leaves", "op": "get", "key": "a", "cancel_after_ms": 150},
        {"call": "stays", "op": "get", "key": "b", "timeout_ms": 20_000, "start_delay_ms": 100},
        {"call": "comes", "op": "get", "key": "c", "timeout_ms": 20_000, "start_delay_ms": 200},
    ]);
    let answers = answers(parallel(several(&node, calls))).await;
    assert_eq!(named(&answers, "leaves")["stopped"], "cancelled");
    assert_eq!(named(&answers, "leaves")["value"], Value::Null);
    assert_eq!(
        (
            &named(&answers, "stays")["status"],
            &named(&answers, "comes")["status"]
        ),
        (&json!(1), &json!(1))
    );
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_start_delay_is_before_the_calls_own_time() {
    let node = Node::start().await.unwrap();
    let calls = json!([get(), {"op": "get", "key": "k", "start_delay_ms": 300, "timeout_ms": 250}]);
    let answers = answers(several(&node, calls)).await;
    assert_eq!(answers[1]["status"], 1, "{answers:?}");
    let seen = node.seen_data();
    assert!(seen[1].arrived - seen[0].arrived >= millis(290));
}

/// Exit status 2, one line, and nothing is sent.
#[tokio::test]
async fn a_document_that_cannot_be_used_says_where() {
    let node = Node::start().await.unwrap();
    let good = json!({"op": "noop"});
    let fields = |name: &str, value: Value| with(several(&node, json!([good])), name, value);
    let calls = |call: Value| several(&node, json!([good, call]));
    for (document, place) in [
        (fields("strategy", json!("best")), "$.strategy: "),
        (
            fields("strategy", json!({"constant_ms": 5})),
            "$.strategy.max_attempts: ",
        ),
        (
            fields("strategy", json!({"max_attempts": 5})),
            "$.strategy.constant_ms: ",
        ),
        (
            fields("strategy", json!({"constant_ms": -5, "max_attempts": 5})),
            "$.strategy.constant_ms: ",
        ),
        (
            fields("strategy", json!({"constant_ms": 5, "max_attempts": 0})),
            "$.strategy.max_attempts: ",
        ),
        (fields("strategy", json!(7)), "$.strategy: "),
        (fields("bootstrap", json!("none")), "$.bootstrap: "),
        (fields("bucket", json!(7)), "$.bucket: "),
        (
            fields("current_server_codes", json!("yes")),
            "$.current_server_codes: ",
        ),
        (
            fields("config_poll_interval_ms", json!(-1)),
            "$.config_poll_interval_ms: ",
        ),
        (
            fields("config_poll_floor_ms", json!("x")),
            "$.config_poll_floor_ms: ",
        ),
        (fields("target", json!("nowhere")), "$.target: "),
        (fields("target", json!([])), "$.target: "),
        (
            fields("target", json!(["127.0.0.1:1", "::1:2"])),
            "$.target: ",
        ),
        (calls(json!({"op": "fetch", "key": "k"})), "$.calls[1].op: "),
        (calls(json!({"key": "k"})), "$.calls[1].op: "),
        (calls(json!({"op": "get"})), "$.calls[1].key: "),
        (
            calls(json!({"op": "set", "key": "k", "value": "?"})),
            "$.calls[1].value: ",
        ),
        (
            calls(json!({"op": "get", "key": "k", "cas": -1})),
            "$.calls[1].cas: ",
        ),
        (
            calls(json!({"op": "get", "key": "k", "idempotent": 1})),
            "$.calls[1].idempotent: ",
        ),
        (
            calls(json!({"op": "get", "key": "k", "timeout_ms": "1s"})),
            "$.calls[1].timeout_ms: ",
        ),
    ] {
        let output = run(&["call", "--json"], document.to_string()).await;
        assert_eq!(output.status.code(), Some(2), "{document}");
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(place), "{place} {said}");
    }
    assert!(node.seen().is_empty());
}

#[tokio::test]
async fn no_calls_are_no_answers() {
    let node = Node::start().await.unwrap();
    assert!(answers(several(&node, json!([]))).await.is_empty());
}
