//! Metadata in both directions, and the attempt count.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, document, run, text};

#[tokio::test]
async fn the_callers_metadata_is_sent_in_order_in_any_case() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let metadata = json!({"X-One": "1", "x-many": ["2", "1", "2"], "x-none": "", "x-bin": "AAEC", "user-agent": "me"});
    answer(one(&server, json!({"metadata": metadata}))).await;
    let seen = &server.seen()[0];
    assert_eq!(seen.header("x-one"), Some("1"));
    assert_eq!(seen.header_values("x-many"), ["2", "1", "2"]);
    assert_eq!(seen.header("x-none"), Some(""));
    assert_eq!(seen.header("x-bin"), Some("AAEC"), "base64 as it is");
    assert_eq!(seen.header("user-agent"), Some("me"));
}

/// R70, and other headers that only gRPC may set.
#[tokio::test]
async fn what_is_grpcs_own_never_comes_from_the_caller() {
    let script = Script::new()
        .then(Step::trailers_only(14, ""))
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let metadata = json!({
        "grpc-previous-rpc-attempts": "7", "grpc-timeout": "1n", "te": "gzip", "content-type": "text/html",
        "connection": "close", "host": "other", "grpc-encoding": "gzip", "grpc-accept-encoding": "gzip",
        "transfer-encoding": "chunked", "grpc-status": "3", "content-length": "1", "x-own": "kept",
    });
    let document = configured(&server, retrying(2), json!({"metadata": metadata}));
    let output = run(&["call", "--json"], document.to_string()).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["code"], 0, "{answer}");
    assert!(text(&output.stderr).contains("metadata.grpc-timeout: is gRPC's own, ignored"));
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some(1)]);
    for call in &seen {
        assert_eq!(call.header_values("te"), ["trailers"]);
        assert_eq!(call.header_values("content-type"), ["application/grpc"]);
        assert_eq!(call.header("x-own"), Some("kept"));
        for gone in [
            "grpc-timeout",
            "connection",
            "host",
            "grpc-encoding",
            "grpc-accept-encoding",
            "transfer-encoding",
            "grpc-status",
            "content-length",
        ] {
            assert_eq!(call.header(gone), None, "{gone}");
        }
    }
}

#[tokio::test]
async fn metadata_that_cannot_be_sent_is_a_fault_of_the_document() {
    for (metadata, place) in [
        (json!({":path": "/x"}), "$.calls[0].metadata.:path: "),
        (json!({"x y": "1"}), "$.calls[0].metadata.x y: "),
        (json!({"x": ["1", "\u{fc}"]}), "$.calls[0].metadata.x: "),
        (json!({"x": "a\nb"}), "$.calls[0].metadata.x: "),
        (json!({"x": 1}), "$.calls[0].metadata: "),
    ] {
        let calls = json!([call(json!({"metadata": metadata}))]);
        let document = document("grpc", "127.0.0.1:1", calls).to_string();
        let output = run(&["call", "--json"], document).await;
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(
            said.starts_with(&format!("reattempt call: {place}")),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[tokio::test]
async fn the_answers_metadata_is_the_applications() {
    let step = Step::ok("world")
        .initial("x-many", "2")
        .initial("x-many", "1")
        .initial("grpc-encoding", "identity")
        .initial("b-bin", "AAEC,AwQF")
        .trailer("x-tail", "a, b")
        .trailer("grpc-status-details-bin", "AAA")
        .status(0, "well done");
    let server = Server::start(step).await.unwrap();
    let answer = answer(one(&server, json!({}))).await;
    let initial = json!({"x-many": ["2", "1"], "b-bin": ["AAEC", "AwQF"]});
    assert_eq!(answer["initial_metadata"], initial);
    let trailing = json!({"x-tail": ["a, b"], "grpc-status-details-bin": ["AAA"]});
    assert_eq!(answer["trailing_metadata"], trailing);
    assert_eq!(answer["message"], "well done");
}

/// The head of a Trailers-Only answer is not initial metadata.
#[tokio::test]
async fn a_trailers_only_answer_has_trailing_metadata_only() {
    let step = Step::trailers_only(5, "gone")
        .trailer("x-tail", "b")
        .pushback("7");
    let server = Server::start(step).await.unwrap();
    let answer = answer(one(&server, json!({}))).await;
    assert_eq!(answer["initial_metadata"], json!({}));
    let trailing = json!({"x-tail": ["b"], "grpc-retry-pushback-ms": ["7"]});
    assert_eq!(answer["trailing_metadata"], trailing);
}

/// R71: for an answer with and without headers; a server-provided count is replaced.
#[tokio::test]
async fn the_count_of_attempts_is_exposed_to_the_caller() {
    let server = Server::start(Script::new()).await.unwrap();
    let key = "grpc-previous-rpc-attempts";
    for (last, in_metadata) in [
        (Step::ok("world").initial(key, "9"), json!({key: ["1"]})),
        (Step::trailers_only(5, "").trailer(key, "9"), json!({})),
    ] {
        let script = Script::new()
            .then(Step::trailers_only(14, ""))
            .otherwise(last.clone());
        server.set_script(script);
        let retried = answer(configured(&server, retrying(3), json!({}))).await;
        assert_eq!(retried["previous_attempts"], "1", "{retried}");
        assert_eq!(retried["initial_metadata"], in_metadata);
        assert_eq!(retried["trailing_metadata"], json!({}));

        server.set_script(last);
        let first = answer(configured(&server, retrying(3), json!({}))).await;
        assert_eq!(first["previous_attempts"], Value::Null, "{first}");
        assert_eq!(first["initial_metadata"], json!({}));
    }
}
