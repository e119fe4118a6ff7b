//! Streams: message timing, early answers, long messages and many messages.

use base64::Engine;
use reattempt_testbed::grpc::{ErrorCode, Script, Server, Step};
use serde_json::json;

use super::*;
use crate::{answer, each, ms};

#[tokio::test]
async fn messages_and_the_half_close_go_out_at_their_times() {
    let server = Server::start(Step::echo()).await.unwrap();
    let fields = json!({
        "kind": "bidi", "payloads": [HELLO, WORLD], "payload_gap_ms": 60, "half_close_after_ms": 60,
    });
    let answer = answer(one(&server, fields)).await;
    assert_eq!(answer["code"], 0, "{answer}");
    let whole = ms(&answer["elapsed_ms"]);
    assert!((119.0..119.0 + ROOM).contains(&whole), "{answer}");
}

/// An answer before the half-close ends the call, and the stream with NO_ERROR, as in grpc-go.
#[tokio::test]
async fn an_early_answer_ends_the_call_and_the_stream() {
    let server = Server::start(Script::new()).await.unwrap();
    for step in [Step::ok("world"), Step::trailers_only(5, "")] {
        for step in [step.clone().at_once(), step.at_once().leave_open()] {
            server.forget();
            server.set_script(step);
            let fields = json!({"kind": "bidi", "payload_gap_ms": 100, "payloads": [HELLO, HELLO, HELLO],
                "half_close_after_ms": 20_000});
            let document = with(one(&server, fields), "linger_ms", json!(300));
            let answer = answer(document).await;
            assert!(
                [0, 5].map(|code| json!(code)).contains(&answer["code"]),
                "{answer}"
            );
            assert!(ms(&answer["elapsed_ms"]) < 100.0 + ROOM, "{answer}");
            let seen = &server.seen()[0];
            assert!(
                seen.messages.len() < 3,
                "nothing is sent on an ended stream"
            );
            if let Some(reset) = seen.cancelled {
                assert_eq!(reset.code, Some(ErrorCode::NO_ERROR));
            }
        }
        assert!(
            server.seen()[0].cancelled.is_some(),
            "the client ends the stream"
        );
    }
}

/// Unusable response messages end the stream with CANCEL.
#[tokio::test]
async fn an_answer_that_is_given_up_is_reset() {
    let step = Step::messages(["a", "b"]).end_hang();
    let server = Server::start(step).await.unwrap();
    let answer = answer(with(one(&server, json!({})), "linger_ms", json!(1_000))).await;
    assert_eq!(
        answer["code"], 13,
        "two messages of a unary method: {answer}"
    );
    let seen = server.wait_cancelled(1).await;
    assert_eq!(seen[0].cancelled.unwrap().code, Some(ErrorCode::CANCEL));
}

#[tokio::test]
async fn many_messages_come_in_order() {
    let payloads: Vec<_> = (0..1_000_u32)
        .map(|at| base64::engine::general_purpose::STANDARD.encode(at.to_be_bytes()))
        .collect();
    let script = Script::new()
        .then(Step::trailers_only(14, ""))
        .otherwise(Step::echo());
    let server = Server::start(script).await.unwrap();
    let fields = json!({"kind": "bidi", "payloads": payloads});
    let answer = answer(configured(&server, retrying(2), fields)).await;
    assert_eq!(answer["code"], 0);
    assert_eq!(each(&answer, "n").len(), 2);
    assert_eq!(answer["responses"], json!(payloads));
    for call in server.seen() {
        assert_eq!(call.messages.len(), 1_000);
    }
}

/// Larger than every flow-control window.
#[tokio::test]
async fn long_messages_pass_in_both_directions() {
    let long = base64::engine::general_purpose::STANDARD.encode(vec![7; 3 << 20]);
    let server = Server::start(Step::echo()).await.unwrap();
    let fields = json!({"kind": "bidi", "payloads": [long, HELLO]});
    let answer = answer(one(&server, fields)).await;
    assert_eq!(answer["code"], 0, "{}", answer["error"]);
    assert!(answer["responses"] == json!([long, HELLO]));
}

/// Four megabytes are gRPC's default limit.
#[tokio::test]
async fn a_message_that_is_too_long_is_resource_exhausted() {
    let long = (4 << 20) + 1;
    let server = Server::start(Step::ok(vec![7; long])).await.unwrap();
    for (limit, code) in [(None, 8), (Some(long), 0), (Some(long - 1), 8)] {
        let config = json!({"methodConfig": [{"name": [{}], "maxResponseMessageBytes": limit}]});
        let answer = answer(configured(&server, config, json!({}))).await;
        assert_eq!(answer["code"], code, "{}", answer["error"]);
        let responses = answer["responses"].as_array().unwrap();
        assert_eq!(responses.len(), usize::from(code == 0));
    }
}

/// At most 64 MiB or 100,000 messages of an endless stream are read; empty messages also use
/// memory.
#[tokio::test]
async fn a_stream_without_end_is_bounded_and_the_bound_named() {
    let long = Step::messages(vec![vec![7; 4 << 20]; 20]).end_hang();
    let many = Step::messages([""]).data(vec![0; 5 * 100_000]).end_hang();
    for (step, taken, bound) in [
        (long, 16, "max (67108864 bytes for one stream)"),
        (many, 100_000, "max (100000 for one stream)"),
    ] {
        let server = Server::start(step).await.unwrap();
        let fields = json!({"kind": "server_stream"});
        let answer = answer(with(one(&server, fields), "linger_ms", json!(1_000))).await;
        assert_eq!(answer["code"], 8, "{}", answer["error"]);
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(bound), "{message}");
        assert_eq!(answer["responses"].as_array().unwrap().len(), taken);
        assert_eq!(answer["stopped"], "committed");
        let seen = server.wait_cancelled(1).await;
        assert_eq!(seen[0].cancelled.unwrap().code, Some(ErrorCode::CANCEL));
    }
}
