//! Answers of successful calls, for the four kinds of methods.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, assert_times, each, ms};

#[tokio::test]
async fn a_call_that_works_at_once_is_one_attempt() {
    let step = Step::ok("world")
        .initial("x-head", "a")
        .trailer("x-tail", "b");
    let server = Server::start(step).await.unwrap();
    let answer = answer(one(&server, json!({"call": "first"}))).await;
    let address = server.addr().to_string();
    let attempts = answer["attempts"].clone();
    let expected = json!([{
        "n": 1, "kind": "initial", "start_ms": attempts[0]["start_ms"], "end_ms": attempts[0]["end_ms"],
        "backend": address, "verdict": "success", "reason": null, "stage": "response",
        "pushback_ms": null, "delay_ms": null,
    }]);
    assert_eq!(attempts, expected);
    let whole = json!({
        "call": "first", "elapsed_ms": answer["elapsed_ms"], "attempts": attempts, "reasons": [],
        "stopped": "success", "error": null, "timeout": null, "code": 0, "message": "",
        "responses": [WORLD], "initial_metadata": {"x-head": ["a"]},
        "trailing_metadata": {"x-tail": ["b"]}, "previous_attempts": null,
    });
    assert_eq!(answer, whole, "every field, and no other");
    assert_times(&answer);
    let seen = server.seen();
    assert_eq!(seen[0].path, METHOD);
    assert_eq!(seen[0].messages, ["hello"]);
    assert!(seen[0].half_closed);
}

/// The request has exactly the headers that gRPC over HTTP/2 requires.
#[tokio::test]
async fn a_request_has_the_headers_of_grpc() {
    let script = Script::new()
        .then(Step::trailers_only(14, ""))
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    // A body that was read to its end has a known length, which the first attempt did not have.
    let fields = json!({"half_close_after_ms": 1});
    answer(configured(&server, retrying(2), fields)).await;
    for (at, seen) in server.seen().iter().enumerate() {
        let mut names: Vec<_> = seen.metadata.keys().map(ToString::to_string).collect();
        names.sort();
        let again: &[_] = &["grpc-previous-rpc-attempts"];
        let expected: Vec<_> = ["content-type"]
            .iter()
            .chain(&again[..at])
            .chain(&["te", "user-agent"])
            .collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), expected);
        assert_eq!(seen.header("content-type"), Some("application/grpc"));
        assert_eq!(seen.header("te"), Some("trailers"));
        let agent = seen.header("user-agent").unwrap();
        assert!(agent.starts_with("grpc-rust-"), "{agent}");
    }
}

#[tokio::test]
async fn every_kind_of_method_carries_its_messages() {
    let server = Server::start(Script::new()).await.unwrap();
    let (hello, all) = (json!([HELLO]), json!([HELLO, WORLD, ""]));
    for (kind, payloads, step, responses) in [
        ("unary", &hello, Step::ok("world"), json!([WORLD])),
        (
            "server_stream",
            &hello,
            Step::messages(["world", "", "hello"]),
            json!([WORLD, "", HELLO]),
        ),
        ("server_stream", &hello, Step::messages([""; 0]), json!([])),
        ("client_stream", &all, Step::ok("world"), json!([WORLD])),
        ("bidi", &all, Step::echo(), all.clone()),
    ] {
        server.forget();
        server.set_script(step);
        let answer = answer(one(&server, json!({"kind": kind, "payloads": payloads}))).await;
        assert_eq!(answer["code"], 0, "{kind}: {answer}");
        assert_eq!(answer["responses"], responses, "{kind}");
        assert_eq!(
            server.seen()[0].messages.len(),
            payloads.as_array().unwrap().len()
        );
    }
}

/// A unary or server-streaming call always sends one message.
#[tokio::test]
async fn a_call_without_payloads_sends_what_its_kind_asks_for() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    for (kind, messages) in [
        ("unary", 1),
        ("server_stream", 1),
        ("client_stream", 0),
        ("bidi", 0),
    ] {
        server.forget();
        let answer = answer(one(&server, json!({"kind": kind, "payloads": []}))).await;
        assert_eq!(answer["code"], 0, "{kind}: {answer}");
        let seen = server.seen();
        assert_eq!(seen[0].messages.len(), messages, "{kind}");
        assert!(seen[0].messages.iter().all(|message| message.is_empty()));
        assert_eq!(seen[0].header("content-length"), None);
    }
}

/// INTERNAL, as in grpc-go and grpc-java.
#[tokio::test]
async fn a_method_that_answers_once_has_exactly_one_message_with_ok() {
    let server = Server::start(Script::new()).await.unwrap();
    let none = Step::messages([""; 0]);
    let trailers_only = Step::trailers_only(0, "");
    let two = Step::messages(["world", "world"]);
    for kind in ["unary", "client_stream"] {
        for (step, messages) in [(&none, 0), (&trailers_only, 0), (&two, 1)] {
            server.set_script(step.clone());
            let document = configured(&server, retrying(4), json!({"kind": kind}));
            let answer = answer(document).await;
            assert_eq!(answer["code"], 13, "{kind}: {answer}");
            assert_eq!(answer["stopped"], "committed");
            assert_eq!(answer["responses"].as_array().unwrap().len(), messages);
            assert_eq!(each(&answer, "verdict"), ["fatal"]);
            assert_eq!(each(&answer, "reason"), ["GRPC_INTERNAL"]);
        }
    }
    // A failure needs no message.
    server.set_script(Step::messages(["world"]).status(5, "gone"));
    let failed = answer(one(&server, json!({}))).await;
    assert_eq!(
        (&failed["code"], &failed["responses"]),
        (&json!(5), &json!([WORLD]))
    );
}

#[tokio::test]
async fn sequential_and_parallel_calls_share_one_connection() {
    let slow = Step::ok("world").after(millis(300));
    let server = Server::start(slow).await.unwrap();
    let names: Vec<_> = (0..4).map(|at| format!("call {at}")).collect();
    let calls = || names.iter().map(|name| json!({"call": name}));
    let sequential = answers(several(&server, calls())).await;
    let named: Vec<_> = sequential.iter().map(|a| a["call"].clone()).collect();
    assert_eq!(named, names);
    let seen = server.seen();
    assert!(
        arrivals(&seen)
            .windows(2)
            .all(|two| two[1] - two[0] > 299.0)
    );

    server.forget();
    let parallel = with(several(&server, calls()), "concurrency", json!("parallel"));
    let mut named: Vec<_> = answers(parallel).await;
    named.sort_by_key(|answer| answer["call"].to_string());
    assert!(named.iter().map(|a| &a["call"]).eq(&names));
    assert!(arrivals(&server.seen()).iter().all(|at| *at < 290.0));
    assert_eq!(server.connections_accepted(), 2, "one for each document");
}

/// Also during connection setup.
#[tokio::test]
async fn a_hundred_calls_at_once_share_one_connection() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let calls = (0..100).map(|_| json!({"wait_for_ready": true}));
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    let answers = answers(document).await;
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| answer["code"] == 0));
    assert_eq!(server.connections_accepted(), 1);
}

/// The server allows two streams at a time.
#[tokio::test]
async fn calls_beyond_the_servers_limit_of_streams_wait_their_turn() {
    let options = reattempt_testbed::grpc::Options::new().max_concurrent_streams(2);
    let step = Step::ok("world").after(millis(5));
    let server = Server::start_with(options, step).await.unwrap();
    // The first call receives the limit.
    let calls = (0..20).map(|at| json!({"start_delay_ms": if at == 0 { 0 } else { 100 }}));
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    for answer in answers(document).await {
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial"]);
    }
}

#[tokio::test]
async fn a_call_can_start_later_and_its_time_begins_then() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let fields = json!({"start_delay_ms": 400, "timeout_ms": 390});
    let answer = answer(one(&server, fields)).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(answer["call"], "1", "calls without a name are numbered");
    assert!(ms(&answer["elapsed_ms"]) < 390.0, "{answer}");
}

#[tokio::test]
async fn nobody_but_the_server_answers() {
    let server = Server::start(Step::trailers_only(5, "gone")).await.unwrap();
    let answer = answer(one(&server, json!({}))).await;
    assert_eq!(answer["responses"], Value::Array(Vec::new()));
    assert_eq!(answer["error"], "NOT_FOUND: gone");
}
