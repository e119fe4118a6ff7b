//! Time limits of a call: its own (`timeout_ms`) and the client's (`timeoutMS`).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, each, ms};

#[track_caller]
fn assert_timed_out(answer: &Value, after: f64, what: &str) {
    assert_eq!(answer["timeout"], what, "{answer}");
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    for field in ["documents", "code", "error_from"] {
        assert_eq!(answer[field], Value::Null, "{field}: {answer}");
    }
    let range = after - 1.0..after + 2000.0;
    assert!(range.contains(&ms(&answer["elapsed_ms"])), "{answer}");
    assert_paired(answer);
}

/// E2: the call's limit ends it in any phase; a timed-out read is unambiguous.
#[tokio::test]
async fn a_read_that_hangs_times_out_and_its_command_has_failed() {
    let node = node(1).await;
    for (target, limit) in [
        (node.uri(), json!(300)),
        (uri(&node, "timeoutMS=300"), Value::Null),
    ] {
        node.script().on("find", Step::hang());
        let answer = answer(several(
            &target,
            [json!({"op": "find", "timeout_ms": limit})],
        ))
        .await;
        assert_timed_out(&answer, 300.0, "unambiguous");
        assert_eq!(
            json!(events(&answer, "event")),
            json!(["started", "failed"])
        );
        assert_eq!(each(&answer, "n").len(), 1);
    }
}

/// E2: the limit of the call ends it, not that of server selection.
#[tokio::test]
async fn a_selection_is_bounded_by_the_calls_limit() {
    let set = replica_set(2).await;
    steps_down_at_find(&set, None);
    let timed = || json!({"op": "find", "timeout_ms": 300});
    let again = answer(several(&set.uri(), [timed()])).await;
    assert_timed_out(&again, 300.0, "unambiguous");
    assert_eq!(each(&again, "n").len(), 2);
    assert_eq!(each(&again, "reason")[0], "MONGODB_NODE_IS_RECOVERING");
    let none = answer(several(&set.uri(), [timed()])).await;
    assert_timed_out(&none, 300.0, "unambiguous");
}

/// E2: while a connection is established.
#[tokio::test]
async fn a_handshake_is_bounded_by_the_calls_limit() {
    let node = node(1).await;
    node.script().when(hello_of_pool, Step::hang());
    let answer = answer(one(&node, json!({"op": "insertOne", "timeout_ms": 300}))).await;
    assert_timed_out(&answer, 300.0, "unambiguous");
    assert_eq!(answer["events"], json!([]));
}

/// A write in flight may have been executed.
#[tokio::test]
async fn a_write_that_hangs_is_ambiguous() {
    let node = node(1).await;
    node.script().on("insert", Step::hang());
    let answer = answer(one(&node, json!({"op": "insertOne", "timeout_ms": 200}))).await;
    assert_timed_out(&answer, 200.0, "ambiguous");
}

/// The call's own limit takes precedence over the client's.
#[tokio::test]
async fn the_calls_own_limit_goes_first() {
    let node = node(1).await;
    node.script().on("find", Step::pass().after(millis(400)));
    let own = json!({"op": "find", "timeout_ms": 20_000});
    let answer = answer(several(&uri(&node, "timeoutMS=100"), [own])).await;
    assert_eq!(answer["documents"], 1, "{answer}");
}

/// One limit applies to all batches of a cursor.
#[tokio::test]
async fn the_limit_holds_for_all_batches() {
    let node = node(7).await;
    for _ in 0..3 {
        node.script().on("getMore", Step::pass().after(millis(200)));
    }
    let answer = answer(one(&node, json!({"op": "findBatch", "timeout_ms": 500}))).await;
    assert_timed_out(&answer, 500.0, "unambiguous");
    assert_eq!(events(&answer, "event").last(), Some(&json!("failed")));
}

/// E2: in the 2022 specification a limit does not allow more than two attempts.
#[tokio::test]
async fn a_limit_does_not_make_more_retries() {
    let node = node(1).await;
    node.script()
        .handler(|command| (command.name == "find").then(|| Step::code(UNREACHABLE)));
    let timed = json!({"op": "find", "timeout_ms": 2000});
    let answer = answer(several(&uri(&node, "timeoutMS=2000"), [timed])).await;
    assert_failed(&answer, 2, UNREACHABLE, "last");
}

/// The attempts are those of the call; a `getMore` is a separate operation.
#[tokio::test]
async fn a_limit_in_a_later_batch_tells_the_calls_attempts() {
    let node = node(7).await;
    node.script().on("find", Step::code(UNREACHABLE));
    node.script().on("getMore", Step::pass());
    node.script().on("getMore", Step::hang());
    let answer = answer(one(&node, json!({"op": "findBatch", "timeout_ms": 500}))).await;
    assert_timed_out(&answer, 500.0, "unambiguous");
    assert_eq!(each(&answer, "n").len(), 2);
    let error = answer["error"].as_str().unwrap();
    let told = "after 2 attempt(s); reasons: MONGODB_SERVER_NETWORK_ERROR)";
    assert!(error.contains(told), "{error}");
}
