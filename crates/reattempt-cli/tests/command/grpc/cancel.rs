//! Cancellation by the caller (`cancel_after_ms`).

use reattempt_testbed::grpc::{ErrorCode, Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, document, each, ms};

#[track_caller]
fn assert_cancelled(answer: &Value, after: f64) {
    assert_eq!(answer["code"], 1, "{answer}");
    assert_eq!(answer["stopped"], "cancelled", "{answer}");
    assert_eq!(answer["timeout"], Value::Null, "{answer}");
    let range = after - 1.0..after + ROOM;
    assert!(range.contains(&ms(&answer["elapsed_ms"])), "{answer}");
}

/// R15: immediately in every phase, and nothing further is sent.
#[tokio::test]
async fn a_caller_who_leaves_gets_code_1_in_every_phase() {
    let server = Server::start(Script::new()).await.unwrap();
    let unavailable = Step::trailers_only(14, "").pushback("300");
    let begun = Step::ok("world").end_hang();
    for (step, config, verdicts, responses) in [
        (Step::hang(), retrying(4), json!(["cancelled"]), json!([])),
        (
            unavailable.clone(),
            retrying(4),
            json!(["retry"]),
            json!([]),
        ),
        (begun, retrying(4), json!(["cancelled"]), json!([WORLD])),
        (
            Step::hang(),
            hedging(2, "0.05s"),
            json!(["cancelled", "cancelled"]),
            json!([]),
        ),
        (
            unavailable,
            hedging(3, "0.05s"),
            json!(["retry"]),
            json!([]),
        ),
    ] {
        server.forget();
        server.set_script(step);
        let document = configured(&server, config, json!({"cancel_after_ms": 150}));
        let answer = answer(with(document, "linger_ms", json!(250))).await;
        assert_cancelled(&answer, 150.0);
        assert_eq!(json!(each(&answer, "verdict")), verdicts, "{answer}");
        assert_eq!(answer["responses"], responses);
        assert_eq!(server.seen().len(), each(&answer, "n").len());
    }
}

/// The streams are reset at once, including those whose request is still being sent.
#[tokio::test]
async fn what_is_out_is_reset() {
    let server = Server::start(Step::hang()).await.unwrap();
    for (fields, attempts) in [
        (json!({}), 2),
        (json!({"kind": "bidi", "half_close_after_ms": 20_000}), 2),
    ] {
        server.forget();
        let mut fields = fields;
        fields["cancel_after_ms"] = json!(200);
        let document = configured(&server, hedging(2, "0.1s"), fields);
        let answer = answer(with(document, "linger_ms", json!(200))).await;
        assert_cancelled(&answer, 200.0);
        let seen = server.seen();
        assert_eq!(seen.len(), attempts);
        for call in seen {
            let cancelled = call.cancelled.unwrap();
            assert_eq!(cancelled.code, Some(ErrorCode::CANCEL));
        }
    }
}

#[tokio::test]
async fn a_call_can_be_cancelled_before_it_is_sent() {
    let target = nobody().await.to_string();
    let calls = json!([call(
        json!({"wait_for_ready": true, "cancel_after_ms": 100})
    )]);
    let answer = answer(document("grpc", &target, calls)).await;
    assert_cancelled(&answer, 100.0);
    assert_eq!(each(&answer, "stage"), ["dispatch"]);
}

/// Cancelling one call does not affect the others.
#[tokio::test]
async fn other_calls_on_the_connection_go_on() {
    let server = Server::start(Step::ok("world").after(millis(250)))
        .await
        .unwrap();
    let calls = [
        json!({"call": "leaves", "cancel_after_ms": 50}),
        json!({"call": "stays"}),
    ];
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    let answers = answers(document).await;
    let code = |name| answers.iter().find(|a| a["call"] == name).unwrap()["code"].clone();
    assert_eq!((code("leaves"), code("stays")), (json!(1), json!(0)));
    assert_eq!(server.connections_accepted(), 1);
}

#[tokio::test]
async fn a_call_that_is_over_before_is_not_cancelled() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let answer = answer(one(&server, json!({"cancel_after_ms": 20_000}))).await;
    assert_eq!(answer["code"], 0);
    assert!(ms(&answer["elapsed_ms"]) < 10_000.0);
}
