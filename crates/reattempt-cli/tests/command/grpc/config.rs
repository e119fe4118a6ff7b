//! Invalid service configs and documents, and warnings.

use reattempt_testbed::grpc::{Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, document, run, text};

/// One line per call, all faults with their paths, and nothing is sent.
#[tokio::test]
async fn a_service_config_that_cannot_be_used_is_told_per_call() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let calls = || [json!({"call": "a"}), json!({"call": "b"})];
    let mut two = retrying(1);
    two["retryThrottling"] = json!({"maxTokens": 0, "tokenRatio": 0.1});
    for concurrency in ["sequential", "parallel"] {
        let document = with(several(&server, calls()), "service_config", two.clone());
        let mut answers = answers(with(document, "concurrency", json!(concurrency))).await;
        answers.sort_by_key(|answer| answer["call"].to_string());
        assert!(answers.iter().map(|answer| &answer["call"]).eq(["a", "b"]));
        for answer in &answers {
            assert_eq!(answer["code"], Value::Null);
            assert_eq!(answer["attempts"], json!([]));
            assert_eq!(answer["responses"], json!([]));
            assert_eq!(answer["stopped"], Value::Null);
            assert!(answer["error"].is_string());
            let faults = answer["config_error"].as_str().unwrap();
            for place in [
                "$.methodConfig[0].retryPolicy.maxAttempts",
                "$.retryThrottling.maxTokens",
            ] {
                assert!(faults.contains(place), "{faults}");
            }
        }
    }
    assert_eq!(server.connections_accepted(), 0);
}

/// A duplicate key is detected, although JSON parsers drop it.
#[tokio::test]
async fn the_service_config_is_read_as_it_was_written() {
    let config = r#"{"methodConfig": [], "methodConfig": []}"#;
    let document = format!(
        r#"{{"target": "127.0.0.1:1", "service_config": {config}, "calls": [{{"method": "{METHOD}"}}]}}"#
    );
    let output = run(&["call", "--json"], document).await;
    assert_eq!(output.status.code(), Some(0));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        answer["config_error"]
            .as_str()
            .unwrap()
            .contains("methodConfig")
    );
}

/// A value that no JSON value type can hold is a fault of the service config, reported per call,
/// and not of the document.
#[tokio::test]
async fn a_service_config_that_is_nested_too_deep_is_told_per_call() {
    let config = format!(r#"{{"x": {}{}}}"#, "[".repeat(300), "]".repeat(300));
    let document = format!(
        r#"{{"target": "127.0.0.1:1", "service_config": {config}, "calls": [{{"method": "{METHOD}"}}]}}"#
    );
    let output = run(&["call", "--json"], document).await;
    assert_eq!(output.status.code(), Some(0));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fault = answer["config_error"].as_str().unwrap();
    assert!(fault.contains("nested too deep"), "{fault}");
}

#[tokio::test]
async fn unknown_fields_are_warned_of_and_ignored() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let mut document = configured(&server, retrying(2), json!({"retries": 3}));
    document["service_config"]["unheard"] = json!(1);
    document["retry"] = json!(true);
    let output = run(&["call", "--json"], document.to_string()).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["code"], 0, "{answer}");
    let said = text(&output.stderr);
    for name in ["$.unheard", "$.retry", "$.calls[0].retries"] {
        assert!(said.contains(name), "{said}");
    }
}

#[tokio::test]
async fn an_empty_service_config_says_nothing() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    for config in [json!({}), json!({"methodConfig": []}), Value::Null] {
        let answer = answer(configured(&server, config, json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
    }
}

/// One line on standard error that says where, and status 2.
#[tokio::test]
async fn a_document_with_a_fault_is_not_carried_out_at_all() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let address = server.addr().to_string();
    let of_call =
        |fields: Value| document("grpc", &address, json!([call(json!({})), call(fields)]));
    let of_document = |name, value| with(document("grpc", &address, json!([])), name, value);
    for (document, place) in [
        (of_call(json!({"kind": "stream"})), "$.calls[1].kind: "),
        (of_call(json!({"payloads": ["?"]})), "$.calls[1].payloads: "),
        (
            of_call(json!({"payloads": "YQ=="})),
            "$.calls[1].payloads: ",
        ),
        (
            of_call(json!({"timeout_ms": -1})),
            "$.calls[1].timeout_ms: ",
        ),
        (
            of_call(json!({"cancel_after_ms": "1"})),
            "$.calls[1].cancel_after_ms: ",
        ),
        (
            of_call(json!({"wait_for_ready": 1})),
            "$.calls[1].wait_for_ready: ",
        ),
        (of_call(json!({"call": 1})), "$.calls[1].call: "),
        (of_document("target", json!("nohost")), "$.target: "),
        (of_document("target", json!(["a:1", "b:1"])), "$.target: "),
        (of_document("target", json!("h:99999")), "$.target: "),
        (of_document("target", json!("h:")), "$.target: "),
        (of_document("target", json!(":1")), "$.target: "),
        (of_document("target", json!("user@h:1")), "$.target: "),
        (of_document("concurrency", json!("both")), "$.concurrency: "),
        (of_document("on_deadline", json!("wait")), "$.on_deadline: "),
        (of_document("seed", json!("x")), "$.seed: "),
        (
            of_document("channel_options", json!({"retry_buffer_size": -1})),
            "$.channel_options.retry_buffer_size: ",
        ),
        (
            of_document("channel_options", json!({"enable_retries": 1})),
            "$.channel_options.enable_retries: ",
        ),
        (
            json!({"target": address, "calls": [{"method": "Echo"}]}),
            "$.calls[0].method: ",
        ),
        (
            json!({"target": address, "calls": [{"method": "/a/b#c"}]}),
            "$.calls[0].method: ",
        ),
        (
            json!({"target": address, "calls": [{}]}),
            "$.calls[0].method: ",
        ),
    ] {
        let output = run(&["call", "--json"], document.to_string()).await;
        assert_eq!(output.status.code(), Some(2), "{document}");
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(
            said.starts_with(&format!("reattempt call: {place}")),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(server.connections_accepted(), 0);
}
