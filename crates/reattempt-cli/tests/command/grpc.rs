//! `reattempt call` over gRPC.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;

use super::{answer, answers, assert_times, document, each, ms, with};

const HELLO: &str = "aGVsbG8=";
const WORLD: &str = "d29ybGQ=";
const METHOD: &str = "/test.Echo/Call";

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A document with one call: these fields, and what every call needs.
fn one(server: &Server, mut call: Value) -> Value {
    call["method"] = METHOD.into();
    if call["payloads"].is_null() {
        call["payloads"] = json!([HELLO]);
    }
    document("grpc", &server.addr().to_string(), json!([call]))
}

/// Retries UNAVAILABLE after about 20 ms.
fn retrying(max_attempts: u32) -> Value {
    json!({"methodConfig": [{"name": [{}], "retryPolicy": {
        "maxAttempts": max_attempts, "initialBackoff": "0.02s", "maxBackoff": "0.02s",
        "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"],
    }}]})
}

fn hedging(delay: &str) -> Value {
    json!({"methodConfig": [{"name": [{"service": "test.Echo"}], "hedgingPolicy": {
        "maxAttempts": 3, "hedgingDelay": delay, "nonFatalStatusCodes": ["UNAVAILABLE"],
    }}]})
}

fn configured(server: &Server, config: Value, call: Value) -> Value {
    with(one(server, call), "service_config", config)
}

#[tokio::test]
async fn a_call_that_works_at_once_is_one_attempt() {
    let step = Step::ok("world")
        .initial("x-head", "a")
        .trailer("x-tail", "b");
    let server = Server::start(step).await.unwrap();
    let call = json!({"call": "first", "metadata": {"x-one": "1", "x-many": ["1", "2"]}});
    let answer = answer(one(&server, call)).await;
    assert_eq!(answer["call"], "first");
    assert_eq!(answer["code"], 0);
    assert_eq!(answer["message"], "");
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["initial_metadata"], json!({"x-head": ["a"]}));
    assert_eq!(answer["trailing_metadata"], json!({"x-tail": ["b"]}));
    assert_eq!(answer["previous_attempts"], Value::Null);
    assert_eq!(answer["stopped"], "success");
    assert_eq!(answer["error"], Value::Null);
    assert_eq!(each(&answer, "verdict"), ["success"]);
    assert_eq!(each(&answer, "kind"), ["initial"]);
    assert_eq!(each(&answer, "backend"), [server.addr().to_string()]);
    assert_times(&answer);
    let seen = server.seen();
    assert_eq!(seen[0].path, METHOD);
    assert_eq!(seen[0].messages, ["hello"]);
    assert_eq!(seen[0].header("x-one"), Some("1"));
    assert_eq!(seen[0].header_values("x-many"), ["1", "2"]);
    assert!(seen[0].half_closed);
}

#[tokio::test]
async fn every_kind_of_method_carries_its_messages() {
    let server = Server::start(Step::echo()).await.unwrap();
    for (kind, payloads) in [
        ("unary", json!([HELLO])),
        ("server_stream", json!([HELLO])),
        ("client_stream", json!([HELLO, WORLD, ""])),
        ("bidi", json!([HELLO, WORLD])),
    ] {
        let call = json!({"kind": kind, "payloads": payloads});
        let answer = answer(one(&server, call)).await;
        assert_eq!(answer["code"], 0, "{kind}: {answer}");
        assert_eq!(answer["responses"], payloads, "{kind}");
    }
}

#[tokio::test]
async fn messages_and_the_half_close_go_out_at_their_times() {
    let server = Server::start(Step::echo()).await.unwrap();
    let call = json!({
        "kind": "bidi", "payloads": [HELLO, WORLD], "payload_gap_ms": 60, "half_close_after_ms": 60,
    });
    let answer = answer(one(&server, call)).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert!(ms(&answer["elapsed_ms"]) >= 119.0, "{answer}");
}

/// R62: without a policy nothing is retried but what the server never saw.
#[tokio::test]
async fn without_a_service_config_a_failure_is_the_calls() {
    let step = Step::trailers_only(14, "not now, 50% \u{fc}").trailer("x-tail", "b");
    let server = Server::start(step).await.unwrap();
    let answer = answer(one(&server, json!({}))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["message"], "not now, 50% \u{fc}");
    assert_eq!(answer["trailing_metadata"], json!({"x-tail": ["b"]}));
    assert_eq!(answer["initial_metadata"], json!({}));
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(each(&answer, "verdict"), ["fatal"]);
    assert_eq!(each(&answer, "reason"), ["GRPC_UNAVAILABLE"]);
    assert_eq!(server.seen_count(), 1);
}

/// R13 R31 R70
#[tokio::test]
async fn the_service_config_retries_and_every_attempt_is_told() {
    let script = Script::new()
        .then(Step::trailers_only(14, "no"))
        .then(Step::trailers_only(14, "no").pushback("50"))
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, retrying(4), json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["previous_attempts"], "2");
    assert_eq!(answer["reasons"], json!(["GRPC_UNAVAILABLE"]));
    assert_eq!(each(&answer, "kind"), ["initial", "retry", "retry"]);
    assert_eq!(each(&answer, "verdict"), ["retry", "retry", "success"]);
    assert_eq!(each(&answer, "stage"), ["response", "response", "response"]);
    let pushbacks = [Value::Null, json!(50), Value::Null];
    assert_eq!(each(&answer, "pushback_ms"), pushbacks);
    assert_eq!(each(&answer, "delay_ms")[1], 50);
    assert_times(&answer);
    let seen = server.seen();
    let previous: Vec<_> = seen.iter().map(|call| call.previous_attempts()).collect();
    assert_eq!(previous, [None, Some(1), Some(2)]);
}

/// R30
#[tokio::test]
async fn a_pushback_that_says_stop_is_told_as_stop() {
    let step = Step::trailers_only(14, "no").pushback("-1");
    let server = Server::start(step).await.unwrap();
    let answer = answer(configured(&server, retrying(4), json!({}))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["stopped"], "pushback");
    assert_eq!(each(&answer, "pushback_ms"), ["stop"]);
}

/// R1: `max_attempts_limit` replaces the client's own maximum of five.
#[tokio::test]
async fn the_attempts_of_a_policy_are_capped_by_the_channel() {
    let server = Server::start(Step::trailers_only(14, "no")).await.unwrap();
    for (options, attempts) in [
        (json!({}), 5),
        (json!({"max_attempts_limit": 7}), 7),
        (json!({"max_attempts_limit": 2}), 2),
        (json!({"enable_retries": false}), 1),
    ] {
        let document = configured(&server, retrying(7), json!({}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{options}: {answer}");
        assert_eq!(answer["code"], 14);
    }
}

/// R10: response headers commit the call.
#[tokio::test]
async fn a_failure_after_the_head_is_not_retried() {
    let server = Server::start(Step::headers_then_status(14)).await.unwrap();
    let answer = answer(configured(&server, retrying(4), json!({}))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["stopped"], "committed");
    assert_eq!(each(&answer, "verdict"), ["fatal"]);
    assert_eq!(each(&answer, "reason"), ["GRPC_UNAVAILABLE"]);
}

#[tokio::test]
async fn a_stream_that_breaks_off_has_the_code_of_its_reset() {
    // CANCEL, then INTERNAL_ERROR.
    for (error, code) in [(8_u32, 1), (2, 13)] {
        let step = Step::ok("world").end_reset(error).end_after(millis(50));
        let server = Server::start(step).await.unwrap();
        let answer = answer(configured(&server, retrying(4), json!({}))).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(answer["responses"], json!([WORLD]));
        assert_eq!(answer["stopped"], "committed");
    }
}

/// R40 R41 R50
#[tokio::test]
async fn hedges_are_told_and_losers_are_cancelled() {
    let script = Script::new()
        .then(Step::hang())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging("0.05s"), json!({}))).await;
    assert_eq!(answer["code"], 0);
    assert_eq!(each(&answer, "kind"), ["initial", "hedge"]);
    assert_eq!(each(&answer, "verdict"), ["cancelled", "success"]);
    let starts = each(&answer, "start_ms");
    assert!(ms(&starts[1]) - ms(&starts[0]) >= 49.0, "{answer}");
    server.wait_cancelled(1).await;
}

/// R14: the call ends at the deadline, also while it waits.
#[tokio::test]
async fn a_deadline_ends_the_call_with_code_4() {
    let server = Server::start(Step::hang()).await.unwrap();
    let hangs = answer(one(&server, json!({"timeout_ms": 80}))).await;
    assert_eq!(hangs["code"], 4);
    assert_eq!(hangs["stopped"], "deadline");
    assert_eq!(hangs["timeout"], "ambiguous");
    assert_eq!(each(&hangs, "verdict"), ["cancelled"]);
    assert!(ms(&hangs["elapsed_ms"]) >= 79.0);
    assert!(server.seen()[0].header("grpc-timeout").is_some());

    let server = Server::start(Step::trailers_only(14, "").pushback("5000"))
        .await
        .unwrap();
    let waits = configured(&server, retrying(4), json!({"timeout_ms": 150}));
    let capped = answer(waits.clone()).await;
    assert_eq!(capped["code"], 4, "{capped}");
    assert_eq!(capped["timeout"], "unambiguous");
    assert!(ms(&capped["elapsed_ms"]) >= 149.0);
    let given_up = answer(with(waits, "on_deadline", json!("give_up"))).await;
    assert_eq!(given_up["code"], 14, "{given_up}");
    assert_eq!(given_up["stopped"], "deadline");
    assert_eq!(given_up["timeout"], Value::Null);
    assert!(ms(&given_up["elapsed_ms"]) < 149.0);
}

#[tokio::test]
async fn a_deadline_bounds_an_answer_that_has_begun() {
    let server = Server::start(Step::ok("world").end_hang()).await.unwrap();
    let answer = answer(one(&server, json!({"timeout_ms": 100}))).await;
    assert_eq!(answer["code"], 4);
    assert_eq!(answer["stopped"], "deadline");
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["timeout"], "ambiguous");
}

/// R15
#[tokio::test]
async fn a_caller_who_leaves_gets_code_1_and_nothing_more_is_sent() {
    let server = Server::start(Step::trailers_only(14, "").pushback("5000"))
        .await
        .unwrap();
    let call = json!({"cancel_after_ms": 80});
    let answer = answer(configured(&server, retrying(4), call)).await;
    assert_eq!(answer["code"], 1);
    assert_eq!(answer["stopped"], "cancelled");
    assert_eq!(each(&answer, "verdict"), ["retry"]);
    assert_eq!(server.seen_count(), 1);
}

/// R61: once, and not counted.
#[tokio::test]
async fn a_refused_stream_is_sent_again_transparently() {
    for step in [Step::refuse_stream(), Step::go_away()] {
        let script = Script::new().then(step).otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let answer = answer(one(&server, json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
        // The connection that goes away may be picked once more before it is gone: such an attempt is never
        // sent, and is mended as transparently. The server sees two in any case.
        let kinds = each(&answer, "kind");
        assert_eq!(kinds[0], "initial", "{answer}");
        assert!(
            kinds.len() > 1 && kinds[1..].iter().all(|kind| kind == "transparent"),
            "{answer}"
        );
        assert_eq!(each(&answer, "verdict").last().unwrap(), "success");
        assert_eq!(server.seen_count(), 2);
        assert_eq!(answer["previous_attempts"], Value::Null);
    }
}

/// R60
#[tokio::test]
async fn a_connection_that_is_refused_is_tried_again_until_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    drop(listener);
    let calls = json!([{"method": METHOD, "timeout_ms": 120}]);
    let answer = answer(document("grpc", &target, calls)).await;
    assert_eq!(answer["code"], 4, "{answer}");
    assert_eq!(answer["timeout"], "unambiguous");
    let kinds = each(&answer, "kind");
    assert!(kinds.len() > 2 && kinds[1..].iter().all(|kind| kind == "transparent"));
    assert!(
        each(&answer, "stage")
            .iter()
            .all(|stage| stage == "dispatch")
    );
}

/// R16
#[tokio::test]
async fn a_call_that_waits_for_readiness_waits_for_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let calls = json!([{"method": METHOD, "wait_for_ready": true, "timeout_ms": 20_000}]);
    let waiting = tokio::spawn(answer(document("grpc", &address.to_string(), calls)));
    tokio::time::sleep(millis(100)).await;
    let options = reattempt_testbed::grpc::Options::new().at(address);
    let _server = Server::start_with(options, Step::ok("world"))
        .await
        .unwrap();
    let answer = waiting.await.unwrap();
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial"]);
}

#[tokio::test]
async fn a_service_config_that_cannot_be_used_is_told_per_call_and_nothing_is_sent() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let calls = json!([{"call": "a", "method": METHOD}, {"call": "b", "method": METHOD}]);
    let document = document("grpc", &server.addr().to_string(), calls);
    let answers = answers(with(document, "service_config", retrying(1))).await;
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        assert_eq!(answer["code"], Value::Null);
        assert_eq!(answer["attempts"], json!([]));
        let fault = answer["config_error"].as_str().unwrap();
        assert!(
            fault.contains("$.methodConfig[0].retryPolicy.maxAttempts"),
            "{fault}"
        );
    }
    assert_eq!(server.seen_count(), 0);
    assert_eq!(server.connections_accepted(), 0);
}

#[tokio::test]
async fn messages_longer_than_their_method_allows_fail_the_call() {
    let server = Server::start(Step::messages(["hi", "world"]).end_hang())
        .await
        .unwrap();
    for (field, responses, text) in [
        ("maxRequestMessageBytes", json!([]), "request"),
        ("maxResponseMessageBytes", json!(["aGk="]), "response"),
    ] {
        let config = json!({"methodConfig": [{"name": [{}], field: 4}]});
        let answer = answer(configured(&server, config, json!({}))).await;
        assert_eq!(answer["code"], 8, "{answer}");
        let message = format!("a {text} message has 5 bytes, and at most 4 are allowed");
        assert_eq!(answer["message"], message);
        assert_eq!(answer["responses"], responses);
        assert_eq!(each(&answer, "kind"), ["initial"]);
    }
}

/// R20 R21: one bucket for all calls of the channel.
#[tokio::test]
async fn the_throttle_of_the_service_config_holds_retries_back() {
    let server = Server::start(Step::trailers_only(14, "no")).await.unwrap();
    let mut config = retrying(5);
    config["retryThrottling"] = json!({"maxTokens": 4, "tokenRatio": 0.1});
    let answer = answer(configured(&server, config, json!({}))).await;
    assert_eq!(answer["stopped"], "throttled");
    assert_eq!(each(&answer, "n").len(), 2, "{answer}");
}

/// R51: what does not fit the buffers cannot be sent again.
#[tokio::test]
async fn a_call_that_outgrows_its_buffer_is_not_retried() {
    let server = Server::start(Step::trailers_only(14, "no")).await.unwrap();
    for (options, attempts) in [
        (json!({"per_rpc_retry_buffer_size": 4}), 1),
        (json!({"retry_buffer_size": 4}), 1),
        (json!({"per_rpc_retry_buffer_size": 64}), 2),
    ] {
        let document = configured(&server, retrying(2), json!({}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{options}: {answer}");
        let stopped = ["not_replayable", "attempts"][attempts - 1];
        assert_eq!(answer["stopped"], stopped, "{options}");
    }
}
