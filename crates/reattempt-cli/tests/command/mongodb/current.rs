//! `retryable_reads: current`: later changes of the specification, except overload.

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms};

/// M4: the two codes of 2023.
#[tokio::test]
async fn the_codes_of_2023_are_retried() {
    for code in [134, 262] {
        let node = node(1).await;
        fail_first_attempts(
            &node,
            "find",
            [
                Step::code(code),
                Step::code(code).with("code", f64::from(code)),
            ],
        );
        for answer in answers(current(&node.uri(), [find(), find()])).await {
            assert_mended(&answer);
        }
        node.script().on("find", Step::code(code));
        assert_failed(&answer(one(&node, find())).await, 1, code, "first");
    }
}

/// M1 M4: everything else is unchanged: the table, codes outside it, and one retry only.
#[tokio::test]
async fn without_a_limit_there_is_one_retry() {
    let node = node(1).await;
    let always =
        |code| move |command: &SeenCommand| (command.name == "find").then(|| Step::code(code));
    for (code, attempts, from) in [
        (6, 2, "last"),
        (134, 2, "last"),
        (189, 2, "last"),
        (50, 1, "first"),
        (462, 1, "first"),
    ] {
        node.script().handler(always(code));
        let answer = answer(current(
            &node.uri(),
            [json!({"op": "find", "timeout_ms": 20_000})],
        ))
        .await;
        assert_failed(&answer, attempts, code, from);
    }
}

/// M14 M19: ineligible operations remain ineligible.
#[tokio::test]
async fn what_runs_once_still_does() {
    for (op, command, options) in [
        ("find", "find", "retryReads=false"),
        ("txnFind", "find", "timeoutMS=20000"),
        ("runCommandFind", "find", "timeoutMS=20000"),
        ("insertOne", "insert", "timeoutMS=20000"),
        ("aggregateOut", "aggregate", ""),
        ("mapReduce", "mapReduce", ""),
    ] {
        let node = node(1).await;
        node.script().on(command, Step::code(STEPPED_DOWN));
        let answer = answer(current(&uri(&node, options), [json!({"op": op})])).await;
        assert_failed(&answer, 1, STEPPED_DOWN, "first");
    }
}

/// With `timeoutMS` a read is retried as long as time allows.
#[tokio::test]
async fn with_timeout_ms_it_goes_on_until_it_works() {
    let node = node(1).await;
    for code in [6, 7, 189, 91, 134, 262] {
        node.script().on("find", Step::code(code));
    }
    node.script().on("find", Step::close_before());
    let answer = answer(current(&uri(&node, "timeoutMS=20000"), [find()])).await;
    assert_eq!(answer["documents"], 1, "{answer}");
    assert_eq!(each(&answer, "n").len(), 8);
    assert_eq!(answer["stopped"], "success");
    assert_paired(&answer);
}

/// M8: a non-retryable error ends it.
#[tokio::test]
async fn with_timeout_ms_a_final_error_ends_it() {
    let node = node(1).await;
    for code in [6, 7, 89, 50] {
        node.script().on("find", Step::code(code));
    }
    let answer = answer(current(&uri(&node, "timeoutMS=20000"), [find()])).await;
    assert_failed(&answer, 4, 50, "last");
    assert_eq!(answer["stopped"], "fatal");
}

/// E2: the limit ends it.
#[tokio::test]
async fn with_timeout_ms_the_limit_ends_it() {
    let node = node(1).await;
    node.script().handler(|command| {
        (command.name == "find").then(|| Step::code(UNREACHABLE).after(millis(20)))
    });
    let answer = answer(current(&uri(&node, "timeoutMS=1200"), [find()])).await;
    // A reply at the last moment leaves no time for another attempt; then it is what the caller
    // gets.
    if answer["timeout"] != "unambiguous" {
        assert_eq!(
            (&answer["code"], &answer["error_from"]),
            (&json!(UNREACHABLE), &json!("last"))
        );
    }
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    assert!(each(&answer, "n").len() > 2, "{answer}");
    assert!(
        (1199.0..4000.0).contains(&ms(&answer["elapsed_ms"])),
        "{answer}"
    );
    assert_paired(&answer);
}

/// M22: without a primary until the limit, the caller gets the timeout.
#[tokio::test]
async fn with_timeout_ms_a_selection_is_cut_off() {
    let set = replica_set(2).await;
    steps_down_at_find(&set, None);
    let answer = answer(current(&format!("{}&timeoutMS=400", set.uri()), [find()])).await;
    assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    assert_eq!(answer["reasons"], json!(["MONGODB_NODE_IS_RECOVERING"]));
    assert_eq!(answer["code"], Value::Null);
}

/// The handshake announces the client's overload support as a number in a string.
#[tokio::test]
async fn the_handshake_says_that_overload_is_known() {
    let node = node(1).await;
    let said = |node: &Node| {
        let hello = node.seen_named("hello").into_iter();
        hello
            .map(|hello| {
                hello
                    .document
                    .get_str("backpressure")
                    .ok()
                    .map(str::to_owned)
            })
            .collect::<Vec<_>>()
    };
    answer(one(&node, find())).await;
    assert!(said(&node).iter().all(Option::is_none));
    let before = said(&node).len();
    answer(current(&node.uri(), [find()])).await;
    assert!(
        said(&node)[before..]
            .iter()
            .all(|said| said.as_deref() == Some("2"))
    );
}
