//! Which of two failures the caller gets (3a, 3b and 3c: selecting again, the equivalent command,
//! the retry fails).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

/// M27 M28: any error that shows that an attempt was made is raised.
#[tokio::test]
async fn a_second_failure_that_was_sent_is_raised() {
    let node = node(1).await;
    let second = [
        (Step::code(91), json!(91)),
        (Step::code(UNREACHABLE), json!(UNREACHABLE)),
        (Step::code(50), json!(50)),
        (Step::code(13), json!(13)),
        (Step::error(1, "InternalError").without("code"), Value::Null),
        (Step::close_before(), Value::Null),
        (Step::half_reply(), Value::Null),
        (Step::reset(), Value::Null),
    ];
    for (step, _) in &second {
        node.script()
            .on("find", Step::code(7))
            .on("find", step.clone());
    }
    let answers = answers(several(&node.uri(), second.iter().map(|_| find()))).await;
    for (answer, (_, code)) in answers.iter().zip(&second) {
        assert_failed(answer, 2, code.clone(), "last");
        let told = json!(["started", "failed", "started", "failed"]);
        assert_eq!(json!(events(answer, "event")), told, "{answer}");
        assert_eq!(answer["reasons"][0], "MONGODB_SERVER_NETWORK_ERROR");
    }
    assert_eq!(sent(&node).len(), 2 * second.len());
}

/// M1: a third attempt is never sent.
#[tokio::test]
async fn there_is_exactly_one_retry() {
    let node = node(1).await;
    for code in [6, 7, 89] {
        node.script().on("find", Step::code(code));
    }
    let answer = answer(one(&node, find())).await;
    assert_failed(&answer, 2, 7, "last");
    assert_eq!(answer["code_name"], "HostNotFound");
    assert_eq!(answer["stopped"], "attempts");
    assert_eq!(json!(each(&answer, "verdict")), json!(["retry", "retry"]));
    assert_eq!((sent(&node).len(), node.script().left()), (2, 1));
}

/// M15: a final second failure ends the call with its own error.
#[tokio::test]
async fn a_final_second_failure_is_fatal() {
    let node = node(1).await;
    node.script()
        .on("find", Step::close_before())
        .on("find", Step::code(50).label("Mine"));
    let answer = answer(one(&node, find())).await;
    assert_failed(&answer, 2, 50, "last");
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(answer["labels"], json!(["Mine"]));
    assert_eq!(json!(each(&answer, "verdict")), json!(["retry", "fatal"]));
}

/// M29: any handshake failure on the retry raises the original.
#[tokio::test]
async fn a_second_failure_in_the_handshake_raises_the_original() {
    for second in [
        Step::close_before(),
        Step::code(91),
        Step::code(18),
        Step::half_reply(),
    ] {
        let node = node(1).await;
        // A server that shuts down clears its pool, so the retry needs a new connection.
        node.script()
            .on("find", Step::code(11600).label("Original"));
        let hello_again = |command: &SeenCommand| command.connection > 2 && command.ordinal == 0;
        node.script().when(hello_again, second);
        let answer = answer(one(&node, find())).await;
        assert_failed(&answer, 2, 11600, "first");
        assert_eq!(answer["code_name"], "InterruptedAtShutdown");
        assert_eq!(answer["labels"], json!(["Original"]));
        assert_eq!(
            json!(events(&answer, "event")),
            json!(["started", "failed"])
        );
        assert_eq!(
            json!(each(&answer, "stage")),
            json!(["response", "dispatch"])
        );
        assert_eq!(sent(&node).len(), 1);
    }
}

/// M22: the original is raised when no server can be selected, and only after trying.
#[tokio::test]
async fn a_selection_that_fails_on_the_retry_raises_the_original() {
    let set = replica_set(2).await;
    steps_down_at_find(&set, None);
    let target = format!("{}&serverSelectionTimeoutMS=400", set.uri());
    let answer = answer(several(&target, [find()])).await;
    assert_failed(&answer, 2, STEPPED_DOWN, "first");
    assert_eq!(answer["code_name"], "PrimarySteppedDown");
    assert_eq!(
        answer["attempts"][1]["reason"],
        "MONGODB_SERVER_SELECTION_FAILED"
    );
    assert_eq!(answer["attempts"][1]["stage"], "dispatch");
    assert_eq!(answer["attempts"][1]["backend"], Value::Null);
    assert!(answer["elapsed_ms"].as_f64().unwrap() >= 399.0, "{answer}");
    assert_eq!(
        json!(events(&answer, "event")),
        json!(["started", "failed"])
    );
}

/// M22: the same with a server that does not come back after a network error.
#[tokio::test]
async fn a_server_that_is_gone_raises_the_original() {
    let node = Arc::new(node(1).await);
    let running = {
        let target = uri(&node, "serverSelectionTimeoutMS=400&connectTimeoutMS=400");
        node.script().on("find", Step::hang());
        tokio::spawn(answer(several(&target, [find()])))
    };
    node.until_seen("find", 1).await;
    node.stop().await;
    let answer = running.await.unwrap();
    assert_failed(&answer, 2, Value::Null, "first");
    assert_eq!(answer["attempts"][0]["reason"], "MONGODB_NETWORK_ERROR");
    assert_eq!(answer["attempts"][0]["stage"], "in_flight");
}

/// M12 M23: nothing is sent to a server that is too old for a retry.
#[tokio::test]
async fn an_old_server_selected_for_the_retry_raises_the_original() {
    for (version, mended) in [(5, false), (6, true), (8, true)] {
        let set = replica_set(2).await;
        set.nodes()[1].set_max_wire_version(version);
        steps_down_at_find(&set, Some(1));
        let answer = answer(several(&set.uri(), [find()])).await;
        if mended {
            assert_mended(&answer);
            assert_eq!(each(&answer, "backend")[1], set.nodes()[1].address());
            continue;
        }
        assert_failed(&answer, 2, STEPPED_DOWN, "first");
        assert_eq!(
            answer["attempts"][1]["reason"],
            "MONGODB_SERVER_NOT_SUPPORTED"
        );
        assert_eq!(answer["attempts"][1]["backend"], set.nodes()[1].address());
        assert_eq!(sent(&set.nodes()[1]).len(), 0);
        assert_eq!(
            json!(events(&answer, "event")),
            json!(["started", "failed"])
        );
    }
}

/// M12 M23 M24: the connection of the first attempt survives a step-down, and is not used after its
/// server was found to be too old.
#[tokio::test]
async fn a_server_found_too_old_after_connecting_raises_the_original() {
    let set = replica_set(1).await;
    let (weak, done) = (Arc::downgrade(&set), AtomicBool::new(false));
    set.nodes()[0].script().handler(move |command| {
        if command.name != "find" || done.swap(true, Ordering::Relaxed) {
            return None;
        }
        weak.upgrade()?.nodes()[0].set_max_wire_version(5);
        Some(Step::code(STEPPED_DOWN))
    });
    let answer = answer(several(&set.uri(), [find()])).await;
    assert_failed(&answer, 2, STEPPED_DOWN, "first");
    assert_eq!(sent(&set.nodes()[0]).len(), 1);
}

/// M12: an old server executes the read once.
#[tokio::test]
async fn an_old_server_runs_the_read_once() {
    for step in [Step::code(UNREACHABLE), Step::close_before()] {
        let old = built(Node::builder().max_wire_version(5), 2).await;
        old.script().on("find", step.clone());
        let first = answer(one(&old, find())).await;
        assert_eq!(each(&first, "verdict"), ["fatal"], "{first}");
        assert_eq!(first["stopped"], "fatal");
        assert_eq!(first["error_from"], "first");
        assert_eq!(answer(one(&old, find())).await["documents"], 2);
        assert_eq!(sent(&old).len(), 2);
        let new = built(Node::builder().max_wire_version(6), 2).await;
        new.script().on("find", step);
        assert_mended(&answer(one(&new, find())).await);
    }
}
