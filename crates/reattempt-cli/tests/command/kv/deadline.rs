//! Time limits, and whether the request may have taken effect.

use reattempt_testbed::kv::{Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms, with};

#[track_caller]
fn assert_timed_out(answer: &Value, timeout: &str, after: f64) {
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    assert_eq!(answer["timeout"], timeout, "{answer}");
    let elapsed = ms(&answer["elapsed_ms"]);
    assert!((after - 1.0..after + ROOM).contains(&elapsed), "{answer}");
    assert!(answer["error"].is_string(), "{answer}");
    assert_eq!(answer["value"], Value::Null);
}

fn within(op: &str, timeout_ms: u64) -> Value {
    json!({"op": op, "key": "k", "value": HELLO, "timeout_ms": timeout_ms})
}

/// C7: waits until the deadline, and sends nothing more.
#[tokio::test]
async fn a_delay_that_does_not_fit_is_cut_and_nothing_more_is_sent() {
    let steps = vec![Step::status(TEMPORARY_FAILURE); 50];
    let lingers = |document| with(document, "linger_ms", json!(400));
    let (node, answer) = set_up(steps, within("set", 700), lingers).await;
    assert_timed_out(&answer, "unambiguous", 700.0);
    assert_eq!(answer["status"], TEMPORARY_FAILURE);
    // 1 to 256 add up to 511 ms; the next 500 do not fit.
    assert_eq!(each(&answer, "n").len(), 10, "{answer}");
    assert_eq!(each(&answer, "delay_ms").last(), Some(&Value::Null));
    assert_eq!(each(&answer, "verdict"), ["retry"; 10]);
    assert_eq!(seen(&node, opcode::SET).len(), 10);
    assert!(
        ms(each(&answer, "end_ms").last().unwrap()) < 650.0,
        "the delay is not an attempt"
    );
}

/// C6 C7
#[tokio::test]
async fn what_always_retries_ends_at_the_deadline_under_any_strategy() {
    for strategy in [
        json!("best_effort"),
        json!("fail_fast"),
        json!("error_map"),
        json!({"constant_ms": 1, "max_attempts": 2}),
    ] {
        let steps = vec![Step::status(0x88); 50];
        let by_it = |document| with(document, "strategy", strategy);
        let (node, answer) = set_up(steps, within("set", 400), by_it).await;
        assert_timed_out(&answer, "unambiguous", 400.0);
        let waited = each(&answer, "delay_ms");
        assert_eq!(waited, delays(&[1, 10, 50, 100]), "{answer}");
        assert_eq!(answer["reasons"], json!(["KV_COLLECTION_OUTDATED"]));
        assert_eq!(seen(&node, opcode::SET).len(), 5);
    }
}

/// RFC 0049: a request in flight may have been executed, unless it only reads.
#[tokio::test]
async fn an_attempt_in_flight_at_the_deadline_is_ambiguous_if_a_write() {
    for (op, idempotent, timeout) in [
        ("append", None, "ambiguous"),
        ("set", None, "ambiguous"),
        ("delete", None, "ambiguous"),
        ("touch", None, "ambiguous"),
        ("get_and_touch", None, "ambiguous"),
        ("get_and_lock", None, "ambiguous"),
        ("get", None, "unambiguous"),
        ("lookup_in", None, "unambiguous"),
        ("observe", None, "unambiguous"),
        ("noop", None, "unambiguous"),
        ("set", Some(true), "unambiguous"),
        ("get", Some(false), "ambiguous"),
    ] {
        let mut call = within(op, 150);
        call["idempotent"] = json!(idempotent);
        let (node, answer) = set_up([Step::hang()], call, |document| document).await;
        assert_timed_out(&answer, timeout, 150.0);
        assert_eq!(answer["status"], Value::Null);
        assert_eq!(each(&answer, "verdict"), ["cancelled"]);
        assert_eq!(each(&answer, "stage"), ["in_flight"]);
        assert_eq!(each(&answer, "reason"), [Value::Null]);
        assert_eq!(
            each(&answer, "backend"),
            [node.addr().to_string()],
            "{answer}"
        );
    }
}

/// The last attempt decides: an earlier definite failure does not make it unambiguous.
#[tokio::test]
async fn of_several_attempts_the_one_that_is_out_decides() {
    let steps = [Step::status(TEMPORARY_FAILURE), Step::hang()];
    let (_, answer) = set_up(steps, within("append", 300), |document| document).await;
    assert_timed_out(&answer, "ambiguous", 300.0);
    assert_eq!(
        answer["status"], TEMPORARY_FAILURE,
        "the last received status"
    );
    assert_eq!(each(&answer, "verdict"), ["retry", "cancelled"]);
}

/// A late response to an abandoned request is ignored.
#[tokio::test]
async fn a_late_answer_is_ignored_and_the_connection_goes_on() {
    let steps = [
        Step::execute(),
        Step::execute().after(millis(400)),
        Step::execute().after(millis(400)),
    ];
    let node = Node::scripted(steps).await.unwrap();
    node.store().put("k", "late");
    let calls = json!([
        {"op": "noop"},
        {"op": "get", "key": "k", "timeout_ms": 100},
        {"op": "get", "key": "other", "timeout_ms": 20_000},
        {"op": "get", "key": "k", "timeout_ms": 20_000},
    ]);
    let answers = answers(several(&node, calls)).await;
    assert_timed_out(&answers[1], "unambiguous", 100.0);
    assert_eq!(answers[2]["status"], 1, "{answers:?}");
    assert_eq!(answers[3]["value"], "bGF0ZQ==");
    assert_eq!(node.connections(), 1);
    let opaques: Vec<_> = node.seen_data().iter().map(|seen| seen.opaque).collect();
    assert!(
        opaques[1] != opaques[2] && opaques[2] != opaques[3],
        "{opaques:?}"
    );
}

/// A request that waits for a connection was not sent.
#[tokio::test]
async fn a_write_that_waits_for_its_connection_is_unambiguous() {
    for op in [
        opcode::HELLO,
        opcode::SASL_AUTH,
        opcode::SELECT_BUCKET,
        opcode::GET_CLUSTER_CONFIG,
    ] {
        let node = Node::start().await.unwrap();
        node.script().push(Step::hang().only(op));
        let mut document = one(&node, within("append", 250));
        if op == opcode::SASL_AUTH {
            document = logged_in(document);
        }
        let answer = answer(document).await;
        assert_timed_out(&answer, "unambiguous", 250.0);
        assert_eq!(each(&answer, "stage"), ["dispatch"], "{answer}");
        assert_eq!(answer["status"], Value::Null);
        assert!(node.seen_data().is_empty());
    }
}

#[tokio::test]
async fn no_time_at_all_is_a_timeout_and_nothing_is_sent() {
    let node = Node::start().await.unwrap();
    let answer = answer(one(&node, within("append", 0))).await;
    assert_timed_out(&answer, "unambiguous", 0.0);
    assert!(node.seen_data().is_empty());
}
