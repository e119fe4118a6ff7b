//! Network errors at every point of a command (Terms, Retryable Error).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms};

/// M3, E8: an incomplete reply is a network error.
#[tokio::test]
async fn a_connection_that_breaks_at_any_byte_is_retried() {
    let steps = || {
        [
            Step::close_before(),
            Step::reset(),
            Step::half_reply(),
            Step::first_bytes(1),
            Step::first_bytes(4),
            Step::first_bytes(15),
            Step::first_bytes(16),
            Step::first_bytes(20),
            Step::first_bytes(21),
            Step::first_bytes(usize::MAX),
        ]
    };
    let node = node(3).await;
    fail_first_attempts(&node, "find", steps());
    let answers = answers(several(&node.uri(), steps().map(|_| find()))).await;
    assert_eq!(answers.len(), 10);
    for answer in &answers {
        assert_mended(answer);
        assert_eq!(answer["documents"], 3);
        assert_eq!(answer["reasons"], json!(["MONGODB_NETWORK_ERROR"]));
        assert_eq!(
            json!(each(answer, "stage")),
            json!(["in_flight", "response"])
        );
        let connections = events(answer, "connection");
        assert_ne!(
            connections[0], connections[2],
            "a broken one is not used again"
        );
    }
}

/// M3: a socket timeout, before the reply or within it.
#[tokio::test]
async fn a_silent_server_is_a_network_error_after_the_socket_timeout() {
    for step in [
        Step::hang(),
        Step::stalled_reply(),
        Step::pass().after(millis(3000)),
    ] {
        let node = node(1).await;
        node.script().on("find", step);
        let answer = answer(several(&uri(&node, "socketTimeoutMS=150"), [find()])).await;
        assert_mended(&answer);
        assert_eq!(answer["reasons"], json!(["MONGODB_NETWORK_ERROR"]));
        let ends = each(&answer, "end_ms");
        assert!((149.0..2000.0).contains(&ms(&ends[0])), "{answer}");
    }
}

/// M28: twice, and the caller gets the second.
#[tokio::test]
async fn a_server_that_stays_silent_ends_the_call() {
    let node = node(1).await;
    node.script()
        .on("find", Step::hang())
        .on("find", Step::hang());
    let answer = answer(several(&uri(&node, "socketTimeoutMS=100"), [find()])).await;
    assert_failed(&answer, 2, Value::Null, "last");
    assert_eq!(answer["stopped"], "attempts");
    assert_eq!(
        answer["timeout"],
        Value::Null,
        "the socket timed out, not the call"
    );
    assert!(answer["elapsed_ms"].as_f64().unwrap() >= 199.0, "{answer}");
}

/// M3: a slow reply within the limit succeeds.
#[tokio::test]
async fn a_slow_answer_within_the_limit_is_waited_for() {
    let node = node(1).await;
    node.script().on("find", Step::pass().after(millis(200)));
    let answer = answer(several(&uri(&node, "socketTimeoutMS=20000"), [find()])).await;
    assert_eq!(
        json!(each(&answer, "verdict")),
        json!(["success"]),
        "{answer}"
    );
}

/// M3 M30: a connection that is closed as soon as it is accepted.
#[tokio::test]
async fn a_connection_that_is_refused_is_retried() {
    let node = node(1).await;
    // The monitor is connected, the pool is not yet.
    let refused = std::sync::atomic::AtomicBool::new(false);
    let node = std::sync::Arc::new(node);
    let weak = std::sync::Arc::downgrade(&node);
    node.script().handler(move |command| {
        if command.name == "hello" && !refused.swap(true, std::sync::atomic::Ordering::Relaxed) {
            weak.upgrade()?.refuse_connections(1);
        }
        None
    });
    let answer = answer(one(&node, find())).await;
    assert_mended(&answer);
    assert_eq!(
        json!(each(&answer, "stage")),
        json!(["dispatch", "response"]),
        "{answer}"
    );
    assert_eq!(
        json!(events(&answer, "event")),
        json!(["started", "succeeded"])
    );
}

/// M2: only the server check happens between the attempts.
#[tokio::test]
async fn the_retry_has_no_delay() {
    let node = node(1).await;
    let steps = [
        Step::code(UNREACHABLE),
        Step::close_before(),
        Step::code(STEPPED_DOWN),
    ];
    fail_first_attempts(&node, "find", steps);
    for answer in answers(several(&node.uri(), [find(), find(), find()])).await {
        assert_mended(&answer);
        assert_eq!(answer["attempts"][0]["delay_ms"], 0, "{answer}");
        let (end, start) = (
            &answer["attempts"][0]["end_ms"],
            &answer["attempts"][1]["start_ms"],
        );
        assert!(ms(start) - ms(end) < 100.0, "{answer}");
    }
}
