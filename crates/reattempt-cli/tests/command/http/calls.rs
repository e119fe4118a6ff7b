//! Single calls: the request on the wire, and the reported answer.

use std::time::Duration;

use reattempt_testbed::http::{Protocol, Script, Server, Step};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::{answer, answers, assert_times, document, each, ms, with};

const HELLO: &str = "aGVsbG8=";

async fn get(server: &Server, call: Value) -> Value {
    answer(document("http", &server.uri(), json!([call]))).await
}

#[tokio::test]
async fn a_call_that_works_at_once_is_one_attempt() {
    let step = Step::status(201)
        .header("x-twice", "1")
        .header("x-twice", "2");
    let server = Server::start(step.body("hello")).await.unwrap();
    let call = json!({
        "call": "first", "method": "POST", "path": "/a?b=c", "body": HELLO,
        "headers": {"x-one": "1", "x-many": ["1", "2"]},
    });
    let answer = get(&server, call).await;
    assert_eq!(answer["call"], "first");
    assert_eq!(answer["status"], 201);
    assert_eq!(answer["headers"]["x-twice"], json!(["1", "2"]));
    assert_eq!(answer["body"], HELLO);
    assert_eq!(answer["stopped"], "success");
    assert_eq!(answer["reasons"], json!([]));
    assert_eq!(answer["error"], Value::Null);
    assert_eq!(answer["timeout"], Value::Null);
    let attempt = &answer["attempts"][0];
    assert_eq!(attempt["n"], 1);
    assert_eq!(attempt["kind"], "initial");
    assert_eq!(attempt["verdict"], "success");
    assert_eq!(attempt["stage"], "response");
    assert_eq!(attempt["backend"], server.addr().to_string());
    for field in ["reason", "pushback_ms", "delay_ms"] {
        assert_eq!(attempt[field], Value::Null, "{field}");
    }
    assert_times(&answer);

    let seen = server.seen();
    assert_eq!(seen[0].method, "POST");
    assert_eq!(seen[0].path, "/a?b=c");
    assert_eq!(seen[0].header("x-one"), Some("1"));
    assert_eq!(seen[0].headers.get_all("x-many").iter().count(), 2);
    assert_eq!(seen[0].body, "hello");
}

#[tokio::test]
async fn a_failure_is_mended_and_every_attempt_is_told() {
    for version in [1, 2] {
        let script = Script::new()
            .then(Step::status(503).header("retry-after-ms", "40"))
            .otherwise(Step::status(200).body("hello"));
        let server = Server::start(script).await.unwrap();
        let document = document("http", &server.uri(), json!([{}]));
        let answer = answer(with(document, "version", json!(version))).await;
        assert_eq!(answer["status"], 200);
        assert_eq!(each(&answer, "kind"), ["initial", "retry"]);
        assert_eq!(each(&answer, "verdict"), ["retry", "success"]);
        assert_eq!(each(&answer, "pushback_ms"), [json!(40), Value::Null]);
        assert_eq!(each(&answer, "delay_ms"), [json!(40), Value::Null]);
        assert_eq!(answer["reasons"].as_array().unwrap().len(), 1);
        assert_eq!(answer["attempts"][0]["reason"], answer["reasons"][0]);
        let attempts = answer["attempts"].as_array().unwrap();
        let gap = ms(&attempts[1]["start_ms"]) - ms(&attempts[0]["end_ms"]);
        assert!(gap >= 39.0, "{answer}");
        assert_times(&answer);
        assert_eq!(server.seen_count(), 2);
        if version == 2 {
            assert_eq!(server.connections_accepted(), 1);
        }
    }
}

#[tokio::test]
async fn the_last_failure_reaches_the_caller_unchanged() {
    let server = Server::start(Step::status(503).body("hello"))
        .await
        .unwrap();
    let answer = get(&server, json!({})).await;
    assert_eq!(answer["status"], 503);
    assert_eq!(answer["body"], HELLO);
    assert_eq!(answer["stopped"], "attempts");
    assert_eq!(each(&answer, "verdict"), ["retry", "retry", "retry"]);
}

#[tokio::test]
async fn a_non_idempotent_request_is_sent_once_unless_the_call_allows() {
    let server = Server::start(Step::status(503)).await.unwrap();
    let once = get(&server, json!({"method": "POST"})).await;
    assert_eq!(once["stopped"], "not_idempotent");
    assert_eq!(server.seen_count(), 1);
    let more = get(&server, json!({"method": "POST", "idempotent": true})).await;
    assert_eq!(more["stopped"], "attempts");
    let once = get(&server, json!({"method": "GET", "idempotent": false})).await;
    assert_eq!(once["stopped"], "not_idempotent");
}

#[tokio::test]
async fn a_refused_connection_was_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    drop(listener);
    let calls = json!([{"method": "POST", "timeout_ms": 5_000}]);
    let answer = answer(document("http", &target, calls)).await;
    assert_eq!(answer["status"], Value::Null);
    assert_eq!(answer["timeout"], Value::Null);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("cannot connect to"), "{error}");
    assert_eq!(each(&answer, "stage"), ["dispatch", "dispatch", "dispatch"]);
    assert_eq!(answer["attempts"][0]["backend"], target);
}

#[tokio::test]
async fn a_timeout_tells_if_the_request_may_have_taken_effect() {
    let server = Server::start(Step::hang()).await.unwrap();
    for (method, word) in [("GET", "unambiguous"), ("POST", "ambiguous")] {
        let answer = get(&server, json!({"method": method, "timeout_ms": 80})).await;
        assert_eq!(answer["timeout"], word, "{answer}");
        assert_eq!(answer["stopped"], "deadline");
        assert_eq!(answer["status"], Value::Null);
        assert_eq!(each(&answer, "verdict"), ["cancelled"]);
        assert_eq!(each(&answer, "stage"), ["in_flight"]);
        assert!(answer["error"].is_string());
        assert!(ms(&answer["elapsed_ms"]) >= 79.0);
    }
    server.wait_cancelled(2).await;
}

#[tokio::test]
async fn an_answer_whose_body_breaks_off_is_no_success() {
    for version in [1, 2] {
        let server = Server::start(Step::close_during_body(5)).await.unwrap();
        let document = document("http", &server.uri(), json!([{}]));
        let answer = answer(with(document, "version", json!(version))).await;
        assert_eq!(answer["status"], 200);
        assert_eq!(answer["stopped"], "committed");
        assert_eq!(each(&answer, "verdict"), ["fatal"], "{answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.starts_with("the answer's body broke off"), "{error}");
    }
}

#[tokio::test]
async fn a_body_is_bounded_by_the_calls_time_limit() {
    let server = Server::start(Step::hang_during_body(5)).await.unwrap();
    let answer = get(&server, json!({"timeout_ms": 100})).await;
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["stopped"], "deadline", "{answer}");
    assert_eq!(answer["timeout"], "unambiguous");
    assert_eq!(each(&answer, "verdict"), ["cancelled"]);
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_call_at_once() {
    let server = Server::start(Step::hang()).await.unwrap();
    let answer = get(&server, json!({"cancel_after_ms": 60})).await;
    assert_eq!(answer["stopped"], "cancelled");
    assert_eq!(each(&answer, "verdict"), ["cancelled"]);
    assert_eq!(answer["timeout"], Value::Null);
    server.wait_cancelled(1).await;
}

#[tokio::test]
async fn a_connection_is_reused_and_replaced_when_it_is_lost() {
    let server = Server::start(Step::status(200).body("hello"))
        .await
        .unwrap();
    let calls = json!([{"call": "a"}, {"call": "b", "start_delay_ms": 50}]);
    answers(document("http", &server.uri(), calls.clone())).await;
    assert_eq!(server.connections_accepted(), 1);

    for protocol in [Protocol::Http1, Protocol::Http2] {
        let version = if protocol == Protocol::Http1 { 1 } else { 2 };
        let script = Script::new()
            .then(
                Step::status(200)
                    .header("connection", "close")
                    .after(Duration::ZERO),
            )
            .then(Step::close_before())
            .otherwise(Step::status(200));
        let server = Server::start(script).await.unwrap();
        let calls = json!([
            {"call": "a"}, {"call": "b", "start_delay_ms": 50}, {"call": "c", "start_delay_ms": 50},
        ]);
        let document = document("http", &server.uri(), calls);
        let answers = answers(with(document, "version", json!(version))).await;
        let statuses: Vec<_> = answers.iter().map(|answer| &answer["status"]).collect();
        assert_eq!(statuses, [200, 200, 200], "{answers:?}");
    }
}
