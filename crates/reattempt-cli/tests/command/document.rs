//! Invalid documents, and rules common to all calls.

use std::time::Duration;

use reattempt_testbed::http::{Script, Server, Step};
use serde_json::json;

use super::{answers, document, each, ms, run, text, with};

/// The single line on standard error for an invalid document.
async fn fault(input: String) -> String {
    let output = run(&["call", "--json"], input).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

#[tokio::test]
async fn an_unusable_document_is_one_line_with_its_place_and_status_2() {
    for (input, line) in [
        (
            "{",
            "reattempt call: $: EOF while parsing an object at line 1 column 1",
        ),
        (
            r#"{"target": "h:1"}"#,
            "reattempt call: $.calls: is required",
        ),
        (r#"{"calls": []}"#, "reattempt call: $.target: is required"),
        (
            r#"{"protocol": "http", "target": "h:1", "calls": [{}, {"body": "?"}]}"#,
            "reattempt call: $.calls[1].body: is not base64: Invalid symbol 63, offset 0.",
        ),
        (
            r#"{"protocol": "http", "target": "h:1", "version": 3, "calls": []}"#,
            "reattempt call: $.version: must be 1 or 2, got 3",
        ),
        (
            r#"{"target": "h:1", "calls": [{"method": "no slash"}]}"#,
            "reattempt call: $.calls[0].method: must be /package.Service/Method, got \"no slash\"",
        ),
    ] {
        assert_eq!(fault(input.to_owned()).await, line);
    }
}

#[tokio::test]
async fn nothing_is_sent_of_a_document_with_a_fault_in_its_last_call() {
    let server = Server::start(Step::status(200)).await.unwrap();
    let calls = json!([{"call": "good"}, {"call": "bad", "method": "A B"}]);
    fault(document("http", &server.uri(), calls).to_string()).await;
    assert_eq!(server.seen_count(), 0);
}

#[tokio::test]
async fn sequential_calls_follow_each_other_and_parallel_ones_overlap() {
    let slow = Step::status(200).after(Duration::from_millis(150));
    let server = Server::start(Script::new().otherwise(slow)).await.unwrap();
    let calls = json!([{"call": "a"}, {"call": "b"}, {"call": "c"}]);
    let document = document("http", &server.uri(), calls);
    let names = |answers: &[serde_json::Value]| {
        let mut names: Vec<_> = answers.iter().map(|a| a["call"].clone()).collect();
        names.sort_by_key(ToString::to_string);
        names
    };

    let one_by_one = answers(document.clone()).await;
    assert_eq!(names(&one_by_one), ["a", "b", "c"]);
    assert_eq!(one_by_one[0]["call"], "a");
    let seen = server.seen();
    assert!(seen[1].arrival - seen[0].arrival >= Duration::from_millis(150));

    server.forget();
    let at_once = answers(with(document, "concurrency", json!("parallel"))).await;
    assert_eq!(names(&at_once), ["a", "b", "c"]);
    let seen = server.seen();
    assert!(
        seen[2].arrival - seen[0].arrival < Duration::from_millis(150),
        "the third came before the first was answered"
    );
}

#[tokio::test]
async fn a_call_can_start_later_and_its_own_time_begins_then() {
    let server = Server::start(Step::status(200)).await.unwrap();
    let calls = json!([{"start_delay_ms": 300}]);
    let answers = answers(document("http", &server.uri(), calls)).await;
    assert_eq!(answers[0]["call"], "1", "calls without a name are numbered");
    assert!(ms(&answers[0]["elapsed_ms"]) < 300.0, "{answers:?}");
}

#[tokio::test]
async fn a_seed_repeats_the_jitter() {
    let mut delays = Vec::new();
    for _ in 0..2 {
        let server = Server::start(Step::status(503)).await.unwrap();
        let calls = document("http", &server.uri(), json!([{}]));
        let answers = answers(with(calls, "seed", json!(7))).await;
        delays.push(each(&answers[0], "delay_ms"));
    }
    assert!(delays[0][0].is_number(), "{delays:?}");
    assert_eq!(delays[0], delays[1]);
}
