//! `hedgingPolicy`.

use reattempt_testbed::grpc::{ErrorCode, Script, SeenCall, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, each};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

/// The calls that the client reset with CANCEL.
fn cancelled(server: &Server) -> Vec<usize> {
    let cancel = |call: &SeenCall| {
        call.cancelled
            .is_some_and(|gone| gone.code == Some(ErrorCode::CANCEL))
    };
    let seen = server.seen();
    seen.iter()
        .filter(|call| cancel(call))
        .map(|call| call.number)
        .collect()
}

/// R40 R41 R50: the first is sent at once, the next after each delay; losers are reset.
#[tokio::test]
async fn hedges_go_out_at_each_delay_and_the_losers_are_cancelled() {
    let script = Script::new()
        .then_times(2, Step::hang())
        .then(Step::ok("world"))
        .otherwise(Step::hang());
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging(4, "0.2s"), json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["stopped"], "success");
    assert_eq!(answer["previous_attempts"], "2");
    assert_eq!(answer["reasons"], json!([]));
    assert_eq!(each(&answer, "n"), [1, 2, 3]);
    assert_eq!(each(&answer, "kind"), ["initial", "hedge", "hedge"]);
    assert_eq!(
        each(&answer, "verdict"),
        ["cancelled", "cancelled", "success"]
    );
    assert_started(&answer, &[0.0, 200.0, 400.0]);
    assert_arrived(&server, &[0.0, 200.0, 400.0]);
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some(1), Some(2)]);
    assert!(seen.iter().all(|call| call.messages == ["hello"]));
    assert_eq!(cancelled(&server), [0, 1]);
}

/// R40: without a delay all are sent at once. R1: at most five.
#[tokio::test]
async fn without_a_delay_all_go_out_at_once() {
    let server = Server::start(Script::new()).await.unwrap();
    let mut absent = hedging(9, "0s");
    let policy = absent["methodConfig"][0]["hedgingPolicy"].as_object_mut();
    policy.unwrap().remove("hedgingDelay");
    for config in [hedging(9, "0s"), absent] {
        server.forget();
        server.set_script(Step::ok("world").after(millis(250)));
        let answer = answer(configured(&server, config, json!({}))).await;
        assert_eq!(answer["code"], 0);
        assert_eq!(each(&answer, "n").len(), 5, "{answer}");
        let seen = server.seen();
        assert!(arrivals(&seen).iter().all(|at| *at < 200.0), "{answer}");
        let mut counts = previous(&seen);
        counts.sort_unstable();
        assert_eq!(counts, [None, Some(1), Some(2), Some(3), Some(4)]);
    }
}

/// R41: response headers win, even when the stream continues or fails.
#[tokio::test]
async fn response_headers_commit_and_cancel_the_others() {
    let server = Server::start(Script::new()).await.unwrap();
    for (end, code, stopped) in [(0, 0, "success"), (14, 14, "committed")] {
        server.forget();
        let winner = Step::ok("world").end_after(millis(700)).status(end, "");
        server.set_script(Script::new().then(Step::hang()).otherwise(winner));
        let document = with(
            configured(&server, hedging(4, "0.1s"), json!({})),
            "linger_ms",
            json!(200),
        );
        let answer = answer(document).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(answer["stopped"], stopped);
        assert_eq!(
            each(&answer, "n").len(),
            2,
            "no third one after 200 ms: {answer}"
        );
        assert_eq!(server.seen().len(), 2);
        let loser = server.seen()[0].cancelled.unwrap();
        let began = server.seen()[0].arrival;
        assert!(loser.at - began < millis(600), "cancelled at the headers");
    }
}

/// R42: a fatal status ends the call at once.
#[tokio::test]
async fn a_fatal_answer_ends_the_call_and_cancels_the_others() {
    let script = Script::new()
        .then(Step::hang())
        .otherwise(Step::trailers_only(5, "gone"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging(4, "0.1s"), json!({}))).await;
    assert_eq!(answer["code"], 5);
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(each(&answer, "verdict"), ["cancelled", "fatal"]);
    assert_eq!(cancelled(&server), [0]);
    // Without nonFatalStatusCodes every failure is fatal (R5).
    let mut config = hedging(4, "0.1s");
    let policy = config["methodConfig"][0]["hedgingPolicy"].as_object_mut();
    policy.unwrap().remove("nonFatalStatusCodes");
    server.set_script(unavailable());
    let failed = crate::answer(configured(&server, config, json!({}))).await;
    assert_eq!(
        (&failed["code"], &failed["stopped"]),
        (&json!(14), &json!("fatal"))
    );
}

/// R43: a non-fatal failure sends the next at once, and the delay restarts.
#[tokio::test]
async fn a_failure_that_is_not_fatal_sends_the_next_at_once() {
    let script = Script::new()
        .then(unavailable().after(millis(100)))
        .then(Step::hang())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging(4, "0.6s"), json!({}))).await;
    assert_eq!(answer["code"], 0);
    assert_eq!(each(&answer, "verdict"), ["retry", "cancelled", "success"]);
    assert_eq!(answer["reasons"], json!(["GRPC_UNAVAILABLE"]));
    assert_arrived(&server, &[0.0, 100.0, 700.0]);
}

/// R44: pushback moves the next hedge, earlier or later, and the delay restarts.
#[tokio::test]
async fn pushback_moves_the_next_hedge() {
    for (delay, asked, planned) in [
        ("0.5s", "150", [0.0, 150.0, 650.0]),
        ("0.2s", "700", [0.0, 700.0, 900.0]),
        ("0.5s", "0", [0.0, 0.0, 500.0]),
    ] {
        let script = Script::new()
            .then(unavailable().pushback(asked))
            .then(Step::hang())
            .otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let answer = answer(configured(&server, hedging(4, delay), json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_arrived(&server, &planned);
        assert_started(&answer, &planned);
    }
}

/// R45: a stop prevents new hedges; those in flight continue (js loses their answer).
#[tokio::test]
async fn a_stop_ends_new_hedges_and_those_in_flight_go_on() {
    let server = Server::start(Script::new()).await.unwrap();
    for stop in ["-1", "xxx"] {
        server.forget();
        let script = Script::new()
            .then(Step::ok("world").after(millis(400)))
            .otherwise(unavailable().pushback(stop));
        server.set_script(script);
        let answer = answer(configured(&server, hedging(5, "0.1s"), json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "verdict"), ["success", "retry"]);
        assert_eq!(each(&answer, "pushback_ms"), [Value::Null, json!("stop")]);
        assert_eq!(server.seen().len(), 2);
    }
    server.set_script(unavailable().pushback("-1"));
    let alone = answer(configured(&server, hedging(5, "0.1s"), json!({}))).await;
    assert_eq!(
        (&alone["code"], &alone["stopped"]),
        (&json!(14), &json!("pushback"))
    );
    assert_eq!(each(&alone, "n").len(), 1);
}

/// R47: the last failure to arrive is returned, and nothing further is sent.
#[tokio::test]
async fn when_all_fail_the_last_failure_is_returned() {
    let fails = |text: &str, after| Step::trailers_only(14, text).after(millis(after));
    let script = Script::new()
        .then(fails("first", 400))
        .then(fails("second", 500))
        .otherwise(fails("third", 250));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging(3, "0.1s"), json!({}))).await;
    // At 400, 600 and 450 ms.
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["message"], "second", "{answer}");
    assert_eq!(answer["stopped"], "attempts");
    assert_eq!(each(&answer, "verdict"), ["retry", "retry", "retry"]);
    assert_eq!(server.seen_count(), 3);
}

/// Every hedge sends the whole stream of messages, including later ones.
#[tokio::test]
async fn every_hedge_of_a_stream_gets_all_its_messages() {
    let script = Script::new()
        .then_times(2, Step::hang())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    for kind in ["client_stream", "bidi"] {
        server.forget();
        server.set_script(
            Script::new()
                .then_times(2, Step::hang())
                .otherwise(Step::ok("world")),
        );
        let fields = json!({
            "kind": kind, "payloads": ["YQ==", "Yg==", "Yw=="], "payload_gap_ms": 150, "half_close_after_ms": 100,
        });
        let answer = answer(configured(&server, hedging(3, "0.1s"), fields)).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(
            each(&answer, "verdict"),
            ["cancelled", "cancelled", "success"]
        );
        for call in server.seen() {
            assert_eq!(call.messages, ["a", "b", "c"], "{answer}");
        }
    }
}

/// A loser whose request is still being sent is reset as well.
#[tokio::test]
async fn losers_that_still_send_are_cancelled() {
    let script = Script::new()
        .then(Step::hang())
        .otherwise(Step::ok("world").at_once());
    let server = Server::start(script).await.unwrap();
    let fields = json!({"kind": "bidi", "half_close_after_ms": 20_000});
    let document = configured(&server, hedging(3, "0.1s"), fields);
    let answer = answer(with(document, "linger_ms", json!(100))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert!(crate::ms(&answer["elapsed_ms"]) < 5_000.0);
    assert_eq!(cancelled(&server), [0]);
}
