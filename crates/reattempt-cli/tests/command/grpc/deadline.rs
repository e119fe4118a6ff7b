//! Time limits of the caller and of the service config, and `grpc-timeout`.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

/// Asserts that the call ended at this time, with code 4.
#[track_caller]
fn assert_ended_at(answer: &Value, millis: f64) {
    assert_eq!(answer["code"], 4, "{answer}");
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    let range = millis - 1.0..millis + ROOM;
    assert!(range.contains(&ms(&answer["elapsed_ms"])), "{answer}");
}

/// R14: in any phase of the call.
#[tokio::test]
async fn the_call_ends_at_its_deadline() {
    let server = Server::start(Script::new()).await.unwrap();
    let streams = json!({"timeout_ms": 150, "kind": "bidi", "half_close_after_ms": 20_000});
    for (step, fields, timeout, verdict) in [
        (
            Step::hang(),
            json!({"timeout_ms": 150}),
            "ambiguous",
            "cancelled",
        ),
        (Step::hang(), streams, "ambiguous", "cancelled"),
        (
            Step::ok("world").end_hang(),
            json!({"timeout_ms": 150}),
            "ambiguous",
            "cancelled",
        ),
        (
            unavailable().pushback("5000"),
            json!({"timeout_ms": 150}),
            "unambiguous",
            "retry",
        ),
    ] {
        server.forget();
        server.set_script(step);
        let answer = answer(configured(&server, retrying(4), fields)).await;
        assert_ended_at(&answer, 150.0);
        assert_eq!(answer["timeout"], timeout, "{answer}");
        assert_eq!(each(&answer, "verdict"), [verdict]);
        assert_eq!(server.seen().len(), 1);
    }
}

/// The stream is reset at once, not at the end of the program.
#[tokio::test]
async fn what_is_out_at_the_deadline_is_reset() {
    let server = Server::start(Step::hang()).await.unwrap();
    let document = configured(&server, hedging(3, "0.05s"), json!({"timeout_ms": 200}));
    let answer = answer(with(document, "linger_ms", json!(300))).await;
    assert_ended_at(&answer, 200.0);
    assert_eq!(answer["timeout"], "ambiguous");
    assert_eq!(
        each(&answer, "verdict"),
        ["cancelled", "cancelled", "cancelled"]
    );
    for call in server.seen() {
        let cancelled = call.cancelled.unwrap();
        assert_eq!(cancelled.code.map(|code| code.name()), Some("CANCEL"));
    }
}

/// The part of the answer that was received is reported.
#[tokio::test]
async fn a_deadline_bounds_an_answer_that_has_begun() {
    let step = Step::ok("world").initial("x-head", "a").end_hang();
    let server = Server::start(step).await.unwrap();
    let answer = answer(one(&server, json!({"timeout_ms": 100}))).await;
    assert_ended_at(&answer, 100.0);
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["initial_metadata"], json!({"x-head": ["a"]}));
}

/// A code 4 sent by the server is not a timeout of this client.
#[tokio::test]
async fn the_servers_own_code_4_is_an_answer() {
    let server = Server::start(Step::trailers_only(4, "too slow"))
        .await
        .unwrap();
    let answer = answer(one(&server, json!({"timeout_ms": 20_000}))).await;
    assert_eq!(answer["code"], 4);
    assert_eq!(answer["message"], "too slow");
    assert_eq!(answer["timeout"], Value::Null);
    assert_eq!(answer["stopped"], "fatal");
}

/// A call that waits for the server to allow one more stream was never sent.
#[tokio::test]
async fn a_call_that_waits_its_turn_ends_unambiguously() {
    let options = reattempt_testbed::grpc::Options::new().max_concurrent_streams(1);
    let server = Server::start_with(options, Step::hang()).await.unwrap();
    let calls = [
        json!({"call": "first", "cancel_after_ms": 600}),
        json!({"call": "second", "start_delay_ms": 200, "timeout_ms": 150}),
    ];
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    let answers = answers(document).await;
    let second = answers.iter().find(|answer| answer["call"] == "second");
    let second = second.unwrap();
    assert_ended_at(second, 150.0);
    assert_eq!(second["timeout"], "unambiguous");
    assert_eq!(each(second, "stage"), ["dispatch"]);
    assert_eq!(server.seen_count(), 1);
}

#[tokio::test]
async fn without_time_nothing_is_sent() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let answer = answer(one(&server, json!({"timeout_ms": 0}))).await;
    assert_ended_at(&answer, 0.0);
    assert_eq!(answer["timeout"], "unambiguous");
    assert_eq!(answer["attempts"], json!([]));
    assert_eq!(server.connections_accepted(), 0);
}

/// R14: `give_up` returns the failure as soon as the delay is known not to fit.
#[tokio::test]
async fn giving_up_returns_the_failure_at_once() {
    let server = Server::start(unavailable().pushback("5000")).await.unwrap();
    for config in [retrying(4), hedging(4, "1s")] {
        let document = configured(&server, config, json!({"timeout_ms": 400}));
        let capped = answer(document.clone()).await;
        assert_ended_at(&capped, 400.0);
        let given_up = answer(with(document, "on_deadline", json!("give_up"))).await;
        assert_eq!(given_up["code"], 14, "{given_up}");
        assert_eq!(given_up["stopped"], "deadline");
        assert_eq!(given_up["timeout"], Value::Null);
        assert!(ms(&given_up["elapsed_ms"]) < 399.0, "{given_up}");
    }
}

/// R80: the earlier of both limits; fractions of a second are exact (js and core differ).
#[tokio::test]
async fn the_earlier_of_both_limits_counts() {
    let server = Server::start(Step::hang()).await.unwrap();
    for (timeout, fields, ends) in [
        ("0.25s", json!({}), 250.0),
        ("1.5s", json!({"timeout_ms": 150}), 150.0),
        ("0.15s", json!({"timeout_ms": 20_000}), 150.0),
        ("0.100000001s", json!({}), 100.0),
    ] {
        let config = json!({"methodConfig": [{"name": [{}], "timeout": timeout}]});
        let answer = answer(configured(&server, config, fields)).await;
        assert_ended_at(&answer, ends);
        assert_eq!(answer["timeout"], "ambiguous");
    }
}

/// The value of a `grpc-timeout` in milliseconds; panics on an invalid one.
fn timeout_of(header: Option<&str>) -> f64 {
    let header = header.expect("a call with a limit says so");
    let (digits, unit) = header.split_at(header.len() - 1);
    assert!((1..=8).contains(&digits.len()), "{header}");
    let amount: u32 = digits.parse().unwrap();
    assert!(amount > 0, "{header}");
    let in_millis = match unit {
        "n" => 1e-6,
        "u" => 1e-3,
        "m" => 1.0,
        "S" => 1e3,
        "M" => 6e4,
        "H" => 3.6e6,
        _ => panic!("{header}"),
    };
    f64::from(amount) * in_millis
}

/// `grpc-timeout` never exceeds the remaining time.
#[tokio::test]
async fn the_timeout_on_the_wire_is_the_time_left() {
    let server = Server::start(unavailable().pushback("200")).await.unwrap();
    let fields = json!({"timeout_ms": 4_000});
    let retried = answer(configured(&server, retrying(4), fields)).await;
    let starts = each(&retried, "start_ms");
    assert_eq!(starts.len(), 4);
    for (call, start) in server.seen().iter().zip(&starts) {
        let (left, start) = (timeout_of(call.header("grpc-timeout")), ms(start));
        assert!(left <= 4_000.0, "{left}");
        let range = 4_000.0 - start - ROOM..4_000.0 - start + 100.0;
        assert!(range.contains(&left), "{left} after {start}");
    }
    for (fields, most) in [
        (json!({"timeout_ms": 1}), 1.0),
        (json!({"timeout_ms": 86_400_000_000_u64}), 86_400_000_000.0),
    ] {
        server.forget();
        server.set_script(Step::ok("world"));
        answer(one(&server, fields)).await;
        if let Some(call) = server.seen().first() {
            assert!(timeout_of(call.header("grpc-timeout")) <= most);
        }
    }
    server.forget();
    answer(one(&server, json!({}))).await;
    assert_eq!(server.seen()[0].header("grpc-timeout"), None);
}

/// R48: no hedge is sent at or after the deadline.
#[tokio::test]
async fn a_hedge_that_is_planned_for_later_is_not_sent() {
    let server = Server::start(Step::hang()).await.unwrap();
    let document = configured(&server, hedging(3, "0.2s"), json!({"timeout_ms": 150}));
    let answer = answer(with(document, "linger_ms", json!(200))).await;
    assert_ended_at(&answer, 150.0);
    assert_eq!(server.seen_count(), 1);
}

/// Independent of how much remains to be sent or read.
#[tokio::test]
async fn a_large_stream_does_not_put_off_the_deadline() {
    let large = "A".repeat(4 << 20);
    let sends = json!({"kind": "bidi", "payloads": vec![large; 3], "timeout_ms": 200});
    let reads = json!({"kind": "server_stream", "timeout_ms": 200});
    let endless = Step::messages(vec![vec![7; 3 << 20]; 20]).end_hang();
    for (step, fields) in [(Step::hang(), sends), (endless, reads)] {
        let server = Server::start(step).await.unwrap();
        let answer = answer(one(&server, fields)).await;
        assert_eq!(answer["code"], 4, "{}", answer["error"]);
        let elapsed = ms(&answer["elapsed_ms"]);
        assert!((199.0..2_000.0).contains(&elapsed), "{elapsed}");
    }
}
