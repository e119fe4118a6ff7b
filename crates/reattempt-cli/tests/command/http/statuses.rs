//! Which statuses are retried, by method.

use reattempt_testbed::http::{Server, Step};
use serde_json::{Value, json};

use super::super::{answers, document, each, with};
use super::three;

const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
const OTHERS: [&str; 3] = ["POST", "PATCH", "MOVE"];

async fn by_method(status: u16, methods: &[&str]) -> Vec<Value> {
    let server = Server::start(Step::status(status)).await.unwrap();
    let calls: Vec<_> = methods
        .iter()
        .map(|method| json!({"call": method, "method": method}))
        .collect();
    three(&server.uri(), 1, calls.into()).await
}

#[tokio::test]
async fn retryable_statuses_are_retried_for_idempotent_methods() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        for answer in by_method(status, &IDEMPOTENT).await {
            assert_eq!(answer["status"], status);
            assert_eq!(answer["stopped"], "attempts", "{answer}");
            assert_eq!(each(&answer, "stage"), ["response"; 3]);
        }
        let (attempts, stopped) = match status {
            // Their meaning is that the request was not processed.
            425 | 429 => (3, "attempts"),
            _ => (1, "not_idempotent"),
        };
        for answer in by_method(status, &OTHERS).await {
            assert_eq!(answer["stopped"], stopped, "{answer}");
            assert_eq!(each(&answer, "n").len(), attempts);
        }
    }
}

#[tokio::test]
async fn other_statuses_are_final() {
    for status in [400, 401, 404, 409, 412, 501, 505, 599] {
        let answers = by_method(status, &["GET", "POST"]).await;
        for answer in answers {
            assert_eq!(answer["status"], status);
            assert_eq!(answer["stopped"], "fatal", "{answer}");
            assert_eq!(each(&answer, "verdict"), ["fatal"]);
        }
    }
    for status in [200, 201, 204, 301, 302, 307] {
        let answers = by_method(status, &["GET", "POST"]).await;
        assert!(answers.iter().all(|answer| answer["stopped"] == "success"));
    }
}

#[tokio::test]
async fn the_policy_says_which_statuses_and_which_are_safe() {
    let server = Server::start(Step::status(503)).await.unwrap();
    let backoff = json!({"initial": "0.001s", "jitter": "none"});
    let stopped = async |retry: Value, method: &str| {
        let mut retry = retry;
        retry["backoff"] = backoff.clone();
        let document = document("http", &server.uri(), json!([{"method": method}]));
        let policy = json!({"default": {"retry": retry}});
        let answers = answers(with(document, "policy", policy)).await;
        answers[0]["stopped"].as_str().unwrap().to_owned()
    };
    assert_eq!(stopped(json!({"statuses": [500]}), "GET").await, "fatal");
    let safe = json!({"statuses": [503], "safeStatuses": [503]});
    assert_eq!(stopped(safe, "POST").await, "attempts");
    assert_eq!(stopped(json!({}), "POST").await, "not_idempotent");
}

/// Only a policy enables it.
#[tokio::test]
async fn an_idempotency_key_counts_only_where_the_policy_says_so() {
    let server = Server::start(Step::status(503)).await.unwrap();
    let keyed = json!([{"method": "POST", "headers": {"idempotency-key": "a"}}]);
    let without = answers(document("http", &server.uri(), keyed.clone())).await;
    assert_eq!(without[0]["stopped"], "not_idempotent");
    let retry = json!({"backoff": {"initial": "0.001s"}});
    for (said, stopped) in [(true, "attempts"), (false, "not_idempotent")] {
        let policy = json!({"default": {"retry": retry, "idempotencyKey": said}});
        let document = document("http", &server.uri(), keyed.clone());
        let answers = answers(with(document, "policy", policy)).await;
        assert_eq!(answers[0]["stopped"], stopped);
    }
}
