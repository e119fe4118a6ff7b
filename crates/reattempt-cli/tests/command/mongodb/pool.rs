//! The connection pool: cleared, exhausted, and with a single connection.

use std::collections::BTreeSet;

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answers, each};

fn by_call<'a>(answers: &'a [Value], call: &str) -> &'a Value {
    let found = answers.iter().find(|answer| answer["call"] == call);
    found.unwrap_or_else(|| panic!("no {call}: {answers:?}"))
}

/// One call holds the only connection while `waits` other reads wait for it.
fn one_connection(node: &Node, options: &str, waits: usize) -> Value {
    let holder = json!({"call": "holder", "op": "find"});
    let waiting =
        (0..waits).map(|n| json!({"call": format!("w{n}"), "op": "find", "start_delay_ms": 200}));
    let target = uri(node, &format!("maxPoolSize=1&{options}"));
    let document = several(&target, std::iter::once(holder).chain(waiting));
    with(document, "concurrency", json!("parallel"))
}

/// M5 M30: a call that waits for a connection when the pool is cleared was not sent, and is
/// retried.
#[tokio::test]
async fn who_waits_when_the_pool_is_cleared_is_retried() {
    for step in [Step::close_before(), Step::half_reply(), Step::code(91)] {
        let node = node(2).await;
        node.script().on("find", step.after(millis(500)));
        let answers = answers(one_connection(&node, "", 3)).await;
        assert_eq!(answers.len(), 4);
        assert!(
            answers.iter().all(|answer| answer["documents"] == 2),
            "{answers:?}"
        );
        assert_mended(by_call(&answers, "holder"));
        for call in ["w0", "w1", "w2"] {
            let answer = by_call(&answers, call);
            assert_mended(answer);
            assert_eq!(
                answer["reasons"],
                json!(["MONGODB_POOL_CLEARED"]),
                "{answer}"
            );
            assert_eq!(
                json!(each(answer, "stage")),
                json!(["dispatch", "response"])
            );
            assert_eq!(
                json!(events(answer, "event")),
                json!(["started", "succeeded"])
            );
        }
        // The broken one, its retry, and one of each waiting call.
        assert_eq!(sent(&node).len(), 5);
    }
}

/// M5 M14: a cleared pool does not make an ineligible operation retryable.
#[tokio::test]
async fn a_cleared_pool_is_final_for_what_is_not_eligible() {
    let node = node(2).await;
    node.script()
        .on("find", Step::close_before().after(millis(500)));
    let mut document = one_connection(&node, "", 3);
    for (place, op) in [(2, "txnFind"), (3, "runCommandFind")] {
        document["calls"][place]["op"] = json!(op);
    }
    let answers = answers(document).await;
    assert_mended(by_call(&answers, "w0"));
    for call in ["w1", "w2"] {
        assert_failed(by_call(&answers, call), 1, Value::Null, "first");
        assert_eq!(by_call(&answers, call)["events"], json!([]));
    }
    assert_eq!(sent(&node).len(), 3);
}

/// M5 M8: a wait queue timeout is not a retryable error.
#[tokio::test]
async fn a_wait_queue_timeout_is_final() {
    let node = node(2).await;
    node.script().on("find", Step::pass().after(millis(1500)));
    let answers = answers(one_connection(&node, "waitQueueTimeoutMS=100", 1)).await;
    assert_eq!(by_call(&answers, "holder")["documents"], 2);
    let answer = by_call(&answers, "w0");
    assert_failed(answer, 1, Value::Null, "first");
    assert_eq!(
        answer["attempts"][0]["reason"],
        "MONGODB_WAIT_QUEUE_TIMEOUT"
    );
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(answer["events"], json!([]));
    assert_eq!(sent(&node).len(), 1);
}

/// M29: nor does it replace the earlier failure.
#[tokio::test]
async fn a_wait_queue_timeout_on_the_retry_raises_the_original() {
    let node = node(2).await;
    // The retry finds the connection in use by a call that started in between.
    node.script()
        .on("find", Step::code(UNREACHABLE).after(millis(600)))
        .on("find", Step::pass().after(millis(3000)));
    let mut document = one_connection(&node, "waitQueueTimeoutMS=1500", 1);
    document["calls"][1]["start_delay_ms"] = json!(300);
    let answers = answers(document).await;
    let answer = by_call(&answers, "holder");
    assert_failed(answer, 2, UNREACHABLE, "first");
    assert_eq!(
        answer["attempts"][1]["reason"],
        "MONGODB_WAIT_QUEUE_TIMEOUT"
    );
    assert_eq!(by_call(&answers, "w0")["documents"], 2);
}

/// E1: the first attempt holds nothing while the second waits for a connection.
#[tokio::test]
async fn a_pool_of_one_connection_does_not_lock_up() {
    let node = node(2).await;
    let steps = [
        Step::code(UNREACHABLE),
        Step::code(STEPPED_DOWN),
        Step::close_before(),
        Step::code(91),
    ];
    fail_first_attempts(&node, "find", steps.clone());
    let target = uri(&node, "maxPoolSize=1&waitQueueTimeoutMS=5000");
    for answer in answers(several(&target, steps.iter().map(|_| find()))).await {
        assert_mended(&answer);
    }
}

/// E1: also while many calls share it and each is sent twice.
#[tokio::test]
async fn a_pool_of_one_connection_serves_all_that_wait() {
    let node = node(2).await;
    node.script().handler({
        let sessions = std::sync::Mutex::new(BTreeSet::new());
        move |command| {
            let session = command.document.get("lsid")?.to_string();
            let fresh = sessions.lock().ok()?.insert(session);
            fresh.then(|| Step::code(UNREACHABLE))
        }
    });
    let document = several(
        &uri(&node, "maxPoolSize=1"),
        (0..8).map(|_| json!({"op": "countDocuments"})),
    );
    for answer in answers(with(document, "concurrency", json!("parallel"))).await {
        assert_eq!(answer["documents"], 2, "{answer}");
        assert_paired(&answer);
    }
    let connections: BTreeSet<_> = sent(&node).iter().map(|seen| seen.connection).collect();
    assert_eq!(connections.len(), 1);
}

/// A connection whose reply was read is reused.
#[tokio::test]
async fn a_sound_connection_is_used_again() {
    let node = node(2).await;
    node.script()
        .on("find", Step::code(UNREACHABLE))
        .on("find", Step::code(50));
    let answers = answers(several(&node.uri(), [find(), find(), find()])).await;
    let used: BTreeSet<_> = answers
        .iter()
        .flat_map(|answer| events(answer, "connection"))
        .map(|connection| connection.as_i64().unwrap())
        .collect();
    assert_eq!(used.len(), 1, "{answers:?}");
}
