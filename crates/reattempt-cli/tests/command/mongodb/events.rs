//! Command monitoring: one start and exactly one end for every attempt that was sent.

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

/// M31
#[tokio::test]
async fn each_attempt_has_its_start_and_its_end() {
    let node = node(1).await;
    node.script().on("count", Step::code(UNREACHABLE));
    let answer = answer(one(&node, json!({"op": "count"}))).await;
    assert_mended(&answer);
    let told = json!(["started", "failed", "started", "succeeded"]);
    assert_eq!(json!(events(&answer, "event")), told);
    assert!(
        events(&answer, "command")
            .iter()
            .all(|name| name == "count")
    );
    let operations = events(&answer, "operation_id");
    assert!(operations.iter().all(|id| *id == operations[0]), "{answer}");
    let requests = events(&answer, "request_id");
    assert_eq!((&requests[0], &requests[2]), (&requests[1], &requests[3]));
    assert_ne!(requests[0], requests[2]);
    let seen: Vec<_> = sent(&node)
        .iter()
        .map(|command| json!(command.request_id))
        .collect();
    assert_eq!(seen, [requests[0].clone(), requests[2].clone()]);
}

/// M31: the connection of an event is the one that carried the command.
#[tokio::test]
async fn a_retry_on_another_connection_says_so() {
    let node = node(1).await;
    node.script().on("find", Step::close_before());
    let answer = answer(one(&node, find())).await;
    assert_mended(&answer);
    let connections = events(&answer, "connection");
    assert_eq!(
        (&connections[0], &connections[2]),
        (&connections[1], &connections[3])
    );
    assert_ne!(connections[0], connections[2]);
}

/// M31: a refused command, an invalid reply, and every other kind of failure.
#[tokio::test]
async fn a_failure_of_any_kind_is_an_end() {
    let steps = || {
        [
            Step::code(50),
            Step::close_before(),
            Step::half_reply(),
            Step::reset(),
            Step::hang(),
        ]
    };
    for op in ["txnFind", "runCommandFind"] {
        let node = node(1).await;
        for step in steps() {
            node.script().on("find", step);
        }
        let target = uri(&node, "socketTimeoutMS=200");
        for answer in answers(several(&target, steps().map(|_| json!({"op": op})))).await {
            assert_eq!(
                json!(events(&answer, "event")),
                json!(["started", "failed"]),
                "{answer}"
            );
            assert_paired(&answer);
        }
    }
}

/// M31: handshakes, logins and monitoring are not commands of the caller.
#[tokio::test]
async fn only_the_callers_commands_have_events() {
    let node = built(Node::builder().user("ann", "secret").unwrap(), 1).await;
    let target = format!(
        "mongodb://ann:secret@{}/?heartbeatFrequencyMS=50",
        node.address()
    );
    let document = with(several(&target, [find()]), "linger_ms", json!(300));
    let answer = answer(document).await;
    assert_eq!(
        json!(events(&answer, "command")),
        json!(["find", "find"]),
        "{answer}"
    );
    assert!(node.seen_named("hello").len() > 2);
}

/// M31: the find and each `getMore` are separate operations, paired also across concurrent calls.
#[tokio::test]
async fn parallel_calls_have_their_own_events() {
    let node = node(5).await;
    node.script().handler({
        let first = std::sync::Mutex::new(std::collections::BTreeSet::new());
        move |command| {
            let session = command.document.get("lsid")?.to_string();
            let fresh = command.name == "find" && first.lock().ok()?.insert(session);
            fresh.then(|| Step::code(UNREACHABLE))
        }
    });
    let calls = (0..6).map(|n| json!({"call": n.to_string(), "op": "findBatch"}));
    let document = with(
        several(&node.uri(), calls),
        "concurrency",
        json!("parallel"),
    );
    let mut operations: Vec<Value> = Vec::new();
    for answer in answers(document).await {
        assert_mended(&answer);
        assert_eq!(answer["documents"], 5);
        assert_eq!(each(&answer, "n").len(), 2);
        let commands = json!([
            "find", "find", "find", "find", "getMore", "getMore", "getMore", "getMore"
        ]);
        assert_eq!(json!(events(&answer, "command")), commands);
        let ids = events(&answer, "operation_id");
        assert!(
            ids[0] == ids[3] && ids[3] != ids[4] && ids[4] != ids[6],
            "{answer}"
        );
        operations.extend([ids[0].clone(), ids[4].clone(), ids[6].clone()]);
    }
    let count = operations.len();
    operations.sort_by_key(Value::as_i64);
    operations.dedup();
    assert_eq!((count, operations.len()), (18, 18));
}
