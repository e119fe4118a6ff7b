//! `reattempt call` over HTTP, against scripted servers and raw sockets.

mod answers_cut_short;
mod calls;
mod connections;
mod http2;
mod policy;
mod pushback;
mod raw;
mod statuses;
mod strange_answers;
mod time;

use serde_json::{Value, json};

use super::{answers, document, each, with};

/// Three attempts, 10 and 20 ms apart.
fn three_attempts() -> Value {
    json!({"default": {"retry": {
        "maxAttempts": 3, "backoff": {"initial": "0.01s", "multiplier": 2, "max": "1s", "jitter": "none"},
    }}})
}

/// The answers to these calls, each with three attempts and a time limit that no passing test
/// reaches.
async fn three(target: &str, version: u8, mut calls: Value) -> Vec<Value> {
    for call in calls.as_array_mut().unwrap() {
        if call.get("timeout_ms").is_none() {
            call["timeout_ms"] = json!(30_000);
        }
    }
    let document = with(document("http", target, calls), "version", json!(version));
    answers(with(document, "policy", three_attempts())).await
}

/// A GET and a POST with a body.
fn both() -> Value {
    json!([{"call": "GET"}, {"call": "POST", "method": "POST", "body": "aGVsbG8="}])
}

/// Asserts that the GET was sent three times and the POST once, for this reason and in this stage,
/// and that neither has an answer.
fn only_the_get_goes_out_again(answers: &[Value], reasons: &[&str], stage: &str) {
    for (answer, attempts, stopped) in [
        (&answers[0], 3, "attempts"),
        (&answers[1], 1, "not_idempotent"),
    ] {
        assert_eq!(answer["status"], Value::Null, "{answer}");
        assert_eq!(answer["timeout"], Value::Null, "{answer}");
        assert_eq!(answer["stopped"], stopped, "{answer}");
        assert!(answer["error"].is_string(), "{answer}");
        let each_reason = each(answer, "reason");
        assert_eq!(each_reason.len(), attempts, "{answer}");
        for reason in each_reason {
            assert!(reasons.contains(&reason.as_str().unwrap()), "{answer}");
        }
        assert!(
            each(answer, "stage").iter().all(|is| is == stage),
            "{answer}"
        );
    }
}
