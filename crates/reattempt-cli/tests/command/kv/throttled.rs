//! Status 0x0c, and its throttle duration.

use reattempt_testbed::kv::frame::{decode_duration, encode_duration};
use reattempt_testbed::kv::{Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answer, each, ms, with};

const WOULD_THROTTLE: u16 = 0x0c;

fn current(document: Value) -> Value {
    with(document, "current_server_codes", json!(true))
}

/// A duration as encoded on the wire.
fn said(ms: u64) -> f64 {
    (decode_duration(encode_duration(millis(ms))).as_secs_f64() * 1e6).round() / 1e3
}

/// The server-provided duration replaces the strategy's delay.
#[tokio::test]
async fn the_throttle_duration_is_the_delay() {
    for strategy in [
        json!("best_effort"),
        json!({"constant_ms": 1, "max_attempts": 3}),
        json!("error_map"),
    ] {
        let step = Step::status(WOULD_THROTTLE).throttle_duration(millis(120));
        let node = Node::scripted([
            step.server_duration(millis(5)),
            Step::status(TEMPORARY_FAILURE),
        ])
        .await
        .unwrap();
        let answer = answer(with(current(one(&node, write())), "strategy", strategy)).await;
        assert_eq!(answer["stopped"], "success", "{answer}");
        assert_eq!(
            answer["reasons"],
            json!(["SERVICE_RESPONSE_CODE_INDICATED", "KV_TEMPORARY_FAILURE"])
        );
        let first = |field| ms(&each(&answer, field)[0]);
        assert!((first("pushback_ms") - said(120)).abs() < 0.1, "{answer}");
        assert!((first("delay_ms") - said(120)).abs() < 0.1, "{answer}");
        assert_eq!(
            each(&answer, "pushback_ms")[1..],
            [Value::Null, Value::Null]
        );
        let seen = node.seen_data();
        assert!(seen[1].arrived - seen[0].arrived >= millis(110));
    }
}

/// Zero counts as absent, so that no server can make a call without a maximum loop without delay.
#[tokio::test]
async fn without_a_duration_the_strategy_decides() {
    let plain = Step::status(WOULD_THROTTLE);
    for step in [plain.clone(), plain.throttle_duration(millis(0))] {
        let node = Node::scripted(vec![step; 3]).await.unwrap();
        let answer = answer(current(one(&node, write()))).await;
        assert_eq!(each(&answer, "delay_ms"), delays(&[1, 2, 4]), "{answer}");
        assert_eq!(each(&answer, "pushback_ms"), vec![Value::Null; 4]);
    }
}

/// Not to be confused with the server duration, and ignored with another status.
#[tokio::test]
async fn other_words_of_the_server_are_no_pushback() {
    for step in [
        Step::status(WOULD_THROTTLE).server_duration(millis(5000)),
        Step::status(TEMPORARY_FAILURE).throttle_duration(millis(5000)),
    ] {
        let node = Node::scripted([step]).await.unwrap();
        let answer = answer(current(one(&node, write()))).await;
        assert_eq!(each(&answer, "delay_ms"), delays(&[1]), "{answer}");
    }
}

/// C7
#[tokio::test]
async fn a_duration_beyond_the_deadline_is_a_timeout() {
    let step = Step::status(WOULD_THROTTLE).throttle_duration(millis(60_000));
    let steps = [step];
    let mut call = write();
    call["timeout_ms"] = json!(200);
    let (_, capped) = set_up(steps.clone(), call.clone(), current).await;
    assert_eq!(
        (&capped["stopped"], &capped["timeout"]),
        (&json!("deadline"), &json!("unambiguous")),
        "{capped}"
    );
    assert!(ms(&capped["elapsed_ms"]) >= 199.0);
    let gives_up = |document| with(current(document), "on_deadline", json!("give_up"));
    let (node, given_up) = set_up(steps, call, gives_up).await;
    assert_eq!(
        (&given_up["stopped"], &given_up["status"]),
        (&json!("deadline"), &json!(WOULD_THROTTLE))
    );
    assert!(ms(&given_up["elapsed_ms"]) < 190.0, "{given_up}");
    assert_eq!(seen(&node, opcode::SET).len(), 1);
}

/// Without the option the status is known and final, whatever it carries.
#[tokio::test]
async fn without_the_option_it_is_final() {
    let step = Step::status(WOULD_THROTTLE).throttle_duration(millis(50));
    let node = Node::scripted([step]).await.unwrap();
    assert_final(&answer(one(&node, get())).await, WOULD_THROTTLE);
}
