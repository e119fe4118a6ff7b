//! Commands that are retried only when a server is overloaded: every command, subject to its
//! option.

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::answer;

/// Every command is retried for overload, subject to its option.
#[tokio::test]
async fn what_is_retried_no_other_way_is_retried_under_overload() {
    let ops = [
        ("find", "find"),
        ("txnFind", "find"),
        ("runCommandFind", "find"),
        ("mapReduce", "mapReduce"),
        ("insertOne", "insert"),
        ("aggregateOut", "aggregate"),
        ("aggregateMerge", "aggregate"),
    ];
    let once_by = |options: &str| -> &[&str] {
        match options {
            "retryReads=false" => &["find", "txnFind", "runCommandFind", "mapReduce"],
            "retryWrites=false" => &[
                "runCommandFind",
                "insertOne",
                "aggregateOut",
                "aggregateMerge",
            ],
            _ => &[],
        }
    };
    for options in ["", "retryReads=false", "retryWrites=false"] {
        for (op, command) in ops {
            let node = node(1).await;
            node.script()
                .on(command, overloaded().with("baseBackoffMS", 1));
            let answer = answer(current(&uri(&node, options), [json!({"op": op})])).await;
            if once_by(options).contains(&op) {
                assert_failed(&answer, 1, 462, "first");
            } else {
                assert_mended(&answer);
            }
        }
    }
}

/// Also `getMore`: the server did not advance the cursor.
#[tokio::test]
async fn get_more_is_retried_under_overload() {
    let node = node(5).await;
    node.script()
        .on("getMore", overloaded().with("baseBackoffMS", 1));
    let answer = answer(current(&node.uri(), [json!({"op": "findBatch"})])).await;
    assert_eq!(answer["documents"], 5, "{answer}");
    assert_eq!(answer["stopped"], "success");
    assert_paired(&answer);
    assert_eq!(node.seen_named("getMore").len(), 3);
}

/// A failed connection is a sign of overload; a failed login is not.
#[tokio::test]
async fn a_connection_that_breaks_before_the_login_is_overload() {
    for step in [Step::close_before(), Step::half_reply()] {
        let node = node(1).await;
        node.script().when(hello_of_pool, step);
        let answer = answer(current(&node.uri(), [json!({"op": "insertOne"})])).await;
        assert_mended(&answer);
        assert_eq!(answer["reasons"], json!(["MONGODB_SYSTEM_OVERLOADED"]));
    }
    let node = built(Node::builder().user("ann", "secret").unwrap(), 1).await;
    let target = format!("mongodb://ann:secret@{}/", node.address());
    node.script().on("saslStart", Step::close_before());
    let insert = || json!({"op": "insertOne"});
    let failed = answer(current(&target, [insert()])).await;
    assert_failed(&failed, 1, Value::Null, "first");
    assert_eq!(failed["labels"], json!([]));
}

/// Of several errors of a write the most informative one is raised (`NoWritesPerformed`).
#[tokio::test]
async fn an_error_that_wrote_nothing_gives_way() {
    let nothing = |code| {
        overloaded()
            .with("code", code)
            .label("NoWritesPerformed")
            .with("baseBackoffMS", 1)
    };
    let real = |code| overloaded().with("code", code).with("baseBackoffMS", 1);
    for (steps, code, from) in [
        ([nothing(1), nothing(2), nothing(3)], 1, "first"),
        ([nothing(1), real(2), nothing(3)], 2, "last"),
        ([real(1), nothing(2), nothing(3)], 1, "first"),
        ([real(1), real(2), real(3)], 3, "last"),
    ] {
        let node = node(1).await;
        for step in steps {
            node.script().on("insert", step);
        }
        let answer = answer(current(&node.uri(), [json!({"op": "insertOne"})])).await;
        assert_failed(&answer, 3, code, from);
    }
}
