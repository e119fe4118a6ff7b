//! The retry buffer of a call (A6, Memory Management).

use base64::Engine;
use reattempt_testbed::grpc::{ErrorCode, Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

fn bytes(count: usize) -> Value {
    base64::engine::general_purpose::STANDARD
        .encode(vec![b'x'; count])
        .into()
}

/// R51: a message that exceeds the buffer is sent, but cannot be sent again.
#[tokio::test]
async fn a_call_that_outgrows_its_buffer_is_not_retried() {
    let server = Server::start(unavailable()).await.unwrap();
    let small = json!([HELLO]);
    for (payloads, options, attempts) in [
        (&small, json!({"per_rpc_retry_buffer_size": 4}), 1),
        (&small, json!({"retry_buffer_size": 4}), 1),
        (&small, json!({"per_rpc_retry_buffer_size": 0}), 1),
        (&small, json!({"per_rpc_retry_buffer_size": 64}), 2),
        // The default is 256 KiB.
        (&json!([bytes(200_000)]), json!({}), 2),
        (&json!([bytes(300_000)]), json!({}), 1),
        (
            &json!([bytes(1 << 20)]),
            json!({"per_rpc_retry_buffer_size": 2 << 20}),
            2,
        ),
    ] {
        server.forget();
        let document = configured(&server, retrying(2), json!({"payloads": payloads}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{options}: {answer}");
        let stopped = ["not_replayable", "attempts"][attempts - 1];
        assert_eq!(answer["stopped"], stopped, "{options}");
        let length = payloads[0].as_str().unwrap().len() / 4 * 3;
        for seen in server.seen() {
            assert!(length - seen.messages[0].len() < 3, "{options}");
        }
    }
}

/// A document whose stream sends four messages of fifty bytes, 100 ms apart, and may buffer two of
/// them.
fn stream(server: &Server, config: Value) -> Value {
    let payloads: Vec<_> = (0..4).map(|_| bytes(50)).collect();
    let fields = json!({"kind": "client_stream", "payloads": payloads, "payload_gap_ms": 100});
    let options = json!({"per_rpc_retry_buffer_size": 120});
    with(
        configured(server, config, fields),
        "channel_options",
        options,
    )
}

/// R51
#[tokio::test]
async fn a_stream_that_outgrows_its_buffer_is_committed() {
    let server = Server::start(unavailable().after_messages(3))
        .await
        .unwrap();
    let answer = answer(stream(&server, retrying(3))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["stopped"], "not_replayable");
    assert_eq!(server.seen_count(), 1);
}

/// R51 R53: the retry sends the buffered and the later messages; the ended attempt takes none.
#[tokio::test]
async fn a_retry_goes_on_with_messages_that_come_later() {
    // Answered early; the server does not close the stream.
    let early = unavailable().after_messages(2).leave_open();
    let script = Script::new().then(early).otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(stream(&server, retrying(3))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "retry"]);
    let seen = server.seen();
    assert_eq!((seen[0].messages.len(), seen[1].messages.len()), (2, 4));
    let reset = seen[0]
        .cancelled
        .expect("the client resets the ended attempt");
    assert_eq!(reset.code, Some(ErrorCode::NO_ERROR));
}

/// R52: a buffer overflow during the back-off allows the retry, which is then the last.
#[tokio::test]
async fn a_stream_that_overflows_during_backoff_is_retried_once_more() {
    let script = Script::new()
        .then(unavailable().after_messages(1).pushback("350"))
        .otherwise(unavailable());
    let server = Server::start(script).await.unwrap();
    let answer = answer(stream(&server, retrying(4))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["stopped"], "not_replayable", "{answer}");
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].messages.len(), 4, "the delayed ones at once");
    assert!(seen[1].half_closed);
    let whole = crate::ms(&answer["elapsed_ms"]);
    assert!(
        whole < 350.0 + ROOM,
        "messages already due are not delayed: {answer}"
    );
}

/// R51: one hedge continues alone, and the others are cancelled.
#[tokio::test]
async fn hedges_that_outgrow_the_buffer_leave_one() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let mut document = stream(&server, hedging(3, "0.15s"));
    document["calls"][0]["half_close_after_ms"] = json!(700);
    let answer = answer(document).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(answer["responses"], json!([WORLD]));
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "no further hedge at 300 ms: {answer}");
    let won = seen.iter().position(|call| call.cancelled.is_none());
    let won = won.expect("one is left");
    assert_eq!(seen[won].messages.len(), 4);
    assert!(seen[won].half_closed);
    let lost = seen[1 - won].cancelled.expect("the other is reset");
    assert_eq!(lost.code, Some(ErrorCode::CANCEL));
    assert!(lost.at - seen[0].arrival < millis(600), "at the overflow");
    assert_eq!(each(&answer, "verdict")[won], "success");
    assert_eq!(each(&answer, "verdict")[1 - won], "cancelled");
}

/// The total is shared by concurrent calls and released at their end.
#[tokio::test]
async fn the_buffer_of_all_calls_is_shared_and_given_back() {
    let server = Server::start(Script::new()).await.unwrap();
    let payloads = json!([bytes(100)]);
    for (size, attempts) in [(150, 1), (300, 2)] {
        let script = Script::new()
            .then(Step::hang())
            .then(unavailable())
            .otherwise(Step::ok("world"));
        server.set_script(script);
        let first = json!({"call": "first", "payloads": payloads, "cancel_after_ms": 600});
        let second = json!({"call": "second", "payloads": payloads, "start_delay_ms": 200});
        let document = several(&server, [first, second]);
        let document = with(document, "concurrency", json!("parallel"));
        let document = with(
            document,
            "channel_options",
            json!({"retry_buffer_size": size}),
        );
        let answers = answers(with(document, "service_config", retrying(2))).await;
        let second = answers.iter().find(|answer| answer["call"] == "second");
        assert_eq!(
            each(second.unwrap(), "n").len(),
            attempts,
            "{size}: {answers:?}"
        );
    }
    // In sequence, each call has the whole buffer.
    let script = Script::new()
        .then(unavailable())
        .then(Step::ok("world"))
        .then(unavailable())
        .otherwise(Step::ok("world"));
    server.set_script(script);
    let calls = [json!({"payloads": payloads}), json!({"payloads": payloads})];
    let document = with(several(&server, calls), "service_config", retrying(2));
    let options = json!({"retry_buffer_size": 150});
    for answer in answers(with(document, "channel_options", options)).await {
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "n").len(), 2);
    }
}
