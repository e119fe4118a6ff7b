//! Cancellation (`cancel_after_ms`) in every phase of an attempt (E4).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, each, ms};

fn leaves(op: &str, after: u32) -> Value {
    json!({"op": op, "cancel_after_ms": after})
}

#[track_caller]
fn assert_left(answer: &Value, attempts: usize, after: f64) {
    assert_eq!(answer["stopped"], "cancelled", "{answer}");
    assert_eq!(each(answer, "n").len(), attempts, "{answer}");
    for field in ["documents", "code", "timeout", "error_from"] {
        assert_eq!(answer[field], Value::Null, "{field}: {answer}");
    }
    let range = after - 1.0..after + 2000.0;
    assert!(range.contains(&ms(&answer["elapsed_ms"])), "{answer}");
    assert_paired(answer);
}

/// E4, M31: the command in flight fails once, and its connection is closed.
#[tokio::test]
async fn a_command_in_flight_fails_and_its_connection_is_closed() {
    for step in [
        Step::hang(),
        Step::stalled_reply(),
        Step::pass().after(millis(2000)),
    ] {
        let node = node(1).await;
        node.script().on("find", step);
        let calls = [leaves("find", 200), find()];
        let answers =
            crate::answers(with(several(&node.uri(), calls), "linger_ms", json!(200))).await;
        assert_left(&answers[0], 1, 200.0);
        assert_eq!(
            json!(events(&answers[0], "event")),
            json!(["started", "failed"])
        );
        assert_eq!(json!(each(&answers[0], "verdict")), json!(["cancelled"]));
        assert_eq!(answers[1]["documents"], 1);
        let connections = [0, 1].map(|call| events(&answers[call], "connection")[0].clone());
        assert_ne!(
            connections[0], connections[1],
            "a reply is outstanding on it"
        );
        assert_eq!(sent(&node).len(), 2, "nothing is sent for a cancelled call");
    }
}

/// E4: during the second attempt.
#[tokio::test]
async fn a_retry_that_is_out_has_failed_too() {
    let node = node(1).await;
    node.script()
        .on("find", Step::code(UNREACHABLE))
        .on("find", Step::hang());
    let answer = answer(one(&node, leaves("find", 250))).await;
    assert_left(&answer, 2, 250.0);
    let told = json!(["started", "failed", "started", "failed"]);
    assert_eq!(json!(events(&answer, "event")), told);
    assert_eq!(
        json!(each(&answer, "verdict")),
        json!(["retry", "cancelled"])
    );
}

/// E4: during server selection, before and after the first attempt.
#[tokio::test]
async fn leaving_during_the_selection_sends_nothing() {
    let set = replica_set(2).await;
    steps_down_at_find(&set, None);
    let again = answer(several(&set.uri(), [leaves("find", 300)])).await;
    assert_left(&again, 2, 300.0);
    assert_eq!(json!(events(&again, "event")), json!(["started", "failed"]));
    let none = answer(several(&set.uri(), [leaves("find", 200)])).await;
    assert_left(&none, 1, 200.0);
    assert_eq!(none["events"], json!([]));
}

/// E4: while a connection is established.
#[tokio::test]
async fn leaving_during_the_handshake_has_no_events() {
    let node = node(1).await;
    node.script().when(hello_of_pool, Step::hang());
    let calls = [leaves("find", 200), find()];
    let answers = crate::answers(several(&node.uri(), calls)).await;
    assert_left(&answers[0], 1, 200.0);
    assert_eq!(answers[0]["events"], json!([]));
    assert_eq!(
        answers[1]["documents"], 1,
        "its place in the pool is free again"
    );
}

/// E4: while another call holds the only connection.
#[tokio::test]
async fn leaving_the_wait_queue_gives_the_place_back() {
    let node = node(1).await;
    node.script().on("find", Step::pass().after(millis(800)));
    let later =
        json!({"call": "left", "op": "find", "start_delay_ms": 200, "cancel_after_ms": 200});
    let last = json!({"call": "last", "op": "find", "start_delay_ms": 600});
    let document = several(&uri(&node, "maxPoolSize=1"), [find(), later, last]);
    for answer in crate::answers(with(document, "concurrency", json!("parallel"))).await {
        if answer["call"] == "left" {
            assert_left(&answer, 1, 200.0);
            assert_eq!(answer["events"], json!([]));
        } else {
            assert_eq!(answer["documents"], 1, "{answer}");
        }
    }
    assert_eq!(sent(&node).len(), 2);
}

/// E4: between two batches.
#[tokio::test]
async fn leaving_within_a_cursor_ends_its_get_more() {
    let node = node(5).await;
    node.script().on("getMore", Step::hang());
    let answer = answer(one(&node, leaves("findBatch", 250))).await;
    assert_left(&answer, 1, 250.0);
    assert_eq!(
        json!(events(&answer, "event")),
        json!(["started", "succeeded", "started", "failed"])
    );
}
