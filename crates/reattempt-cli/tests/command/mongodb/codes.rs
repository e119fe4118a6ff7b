//! Which server replies are retryable (Terms, Retryable Error).

use bson::{Bson, Decimal128, doc};
use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

const TABLE: [i32; 11] = [11600, 11602, 10107, 13435, 13436, 189, 91, 7, 6, 89, 9001];

/// M4
#[tokio::test]
async fn every_code_of_the_table_is_retried() {
    let node = node(2).await;
    fail_first_attempts(&node, "find", TABLE.map(Step::code));
    let answers = answers(several(&node.uri(), TABLE.map(|_| find()))).await;
    for answer in &answers {
        assert_mended(answer);
        assert_eq!(answer["documents"], 2, "{answer}");
        assert_eq!(
            json!(each(answer, "stage")),
            json!(["response", "response"])
        );
    }
    let reasons: Vec<_> = answers
        .iter()
        .map(|answer| answer["reasons"][0].clone())
        .collect();
    let [down, not_primary, network] = [
        "MONGODB_NODE_IS_RECOVERING",
        "MONGODB_NOT_WRITABLE_PRIMARY",
        "MONGODB_SERVER_NETWORK_ERROR",
    ];
    assert_eq!(
        reasons,
        [
            down,
            down,
            not_primary,
            not_primary,
            down,
            down,
            down,
            network,
            network,
            network,
            network
        ]
    );
}

fn as_numbers(code: i32) -> [Bson; 4] {
    let decimal: Decimal128 = code.to_string().parse().unwrap();
    [
        Bson::Int32(code),
        Bson::Int64(code.into()),
        Bson::Double(code.into()),
        Bson::Decimal128(decimal),
    ]
}

/// M4, E5
#[tokio::test]
async fn a_code_counts_as_any_kind_of_number() {
    for ok in [
        Bson::Int32(0),
        Bson::Int64(0),
        Bson::Double(0.0),
        Bson::Boolean(false),
    ] {
        let node = node(1).await;
        let step = |code| Step::code(9001).with("code", code).with("ok", ok.clone());
        fail_first_attempts(&node, "find", as_numbers(9001).map(step));
        for answer in answers(several(&node.uri(), [(); 4].map(|()| find()))).await {
            assert_mended(&answer);
        }
    }
}

/// E5: the surfaced code is a number, whatever its type in the reply.
#[tokio::test]
async fn a_final_code_is_told_as_a_number() {
    let node = node(1).await;
    for code in as_numbers(50) {
        node.script().on("find", Step::code(50).with("code", code));
    }
    for answer in answers(several(&node.uri(), [(); 4].map(|()| find()))).await {
        assert_failed(&answer, 1, 50, "first");
        assert_eq!(answer["code_name"], "MaxTimeMSExpired");
        assert_eq!(answer["stopped"], "fatal");
        assert_eq!(answer["reasons"], json!([]), "{answer}");
    }
}

/// M8, E5
#[tokio::test]
async fn any_other_error_is_final() {
    let node = node(1).await;
    let named = |code: i32| Step::error(code, "PrimarySteppedDown");
    let shown = [
        (Step::code(50), json!(50)),
        (Step::code(11601), json!(11601)),
        (Step::code(43), json!(43)),
        (Step::code(13), json!(13)),
        (Step::code(18), json!(18)),
        (Step::code(134), json!(134)),
        (Step::code(262), json!(262)),
        (Step::code(10058), json!(10058)),
        (Step::code(0), json!(0)),
        // Name and message are ignored.
        (named(20), json!(20)),
        (Step::code(1).with("errmsg", "not master"), json!(1)),
        (Step::code(1).with("errmsg", "node is recovering"), json!(1)),
        (named(1).without("code"), Value::Null),
        (named(1).with("code", "189"), Value::Null),
        (named(1).with("code", Bson::Null), Value::Null),
        (named(1).with("code", true), Value::Null),
        (named(1).with("code", 189.5), Value::Null),
        (named(1).with("code", f64::NAN), Value::Null),
        // Not truncated to 32 bits.
        (
            named(1).with("code", 189 + (1_i64 << 32)),
            json!(189 + (1_i64 << 32)),
        ),
        // A reply without `ok: 0`.
        (Step::reply(doc! { "cursor": {} }), Value::Null),
    ];
    for (step, _) in &shown {
        node.script().on("find", step.clone());
    }
    let answers = answers(several(&node.uri(), shown.iter().map(|_| find()))).await;
    for (answer, (_, code)) in answers.iter().zip(&shown) {
        assert_failed(answer, 1, code.clone(), "first");
        assert_eq!(json!(each(answer, "verdict")), json!(["fatal"]), "{answer}");
        assert_eq!(json!(events(answer, "event")), json!(["started", "failed"]));
    }
    assert_eq!(sent(&node).len(), shown.len());
}

/// M7, E6: codes within a successful reply are not errors of the read.
#[tokio::test]
async fn an_answer_that_is_ok_is_a_success_whatever_is_in_it() {
    let node = node(3).await;
    let concern = doc! { "code": 91, "codeName": "ShutdownInProgress", "errmsg": "by script" };
    let error = doc! { "index": 0, "code": 189, "errmsg": "by script" };
    for step in [
        Step::pass().with("writeConcernError", concern),
        Step::pass().with("writeErrors", vec![error]),
        Step::pass().with("code", 189),
        Step::pass().with("ok", 1_i64),
        Step::pass().with("ok", true),
        Step::pass().label("RetryableWriteError"),
    ] {
        node.script().on("find", step);
        let answer = answer(one(&node, find())).await;
        assert_eq!(answer["documents"], 3, "{answer}");
        assert_eq!(
            json!(each(&answer, "verdict")),
            json!(["success"]),
            "{answer}"
        );
        assert_eq!(answer["code"], Value::Null);
    }
}

/// E6: the code of the error reply decides, not that of a write concern or a write error.
#[tokio::test]
async fn codes_deeper_in_an_error_do_not_count() {
    let node = node(3).await;
    let deeper = doc! { "code": 91, "errmsg": "by script" };
    for field in ["writeConcernError", "cause"] {
        node.script()
            .on("find", Step::code(50).with(field, deeper.clone()));
        let answer = answer(one(&node, find())).await;
        assert_failed(&answer, 1, 50, "first");
    }
}

/// M4 M8: reads are retried by code, never by label; the labels are reported.
#[tokio::test]
async fn labels_decide_nothing_and_are_told() {
    let node = node(1).await;
    let labels = [
        "RetryableError",
        "SystemOverloadedError",
        "TransientTransactionError",
    ];
    let step = labels
        .iter()
        .fold(Step::code(50), |step, label| step.label(label));
    node.script().on("find", step);
    let answer = answer(one(&node, find())).await;
    assert_failed(&answer, 1, 50, "first");
    assert_eq!(answer["labels"], json!(labels));
}
