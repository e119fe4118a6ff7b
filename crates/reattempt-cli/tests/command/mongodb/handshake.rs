//! Failures while a connection is established: hello, and each step of the authentication (Terms,
//! Retryable Error).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, each};

const USER: (&str, &str) = ("ann", "secret");

/// A node with a user, and a connection string with its login.
async fn with_user(options: &str) -> (Node, String) {
    let builder = Node::builder().user(USER.0, USER.1).unwrap();
    let node = built(builder, 2).await;
    let (name, password) = USER;
    let target = format!(
        "mongodb://{name}:{password}@{}/?authMechanism=SCRAM-SHA-256&{options}",
        node.address()
    );
    (node, target)
}

/// Fails the next step with this name on a connection of the pool.
fn fail(node: &Node, name: &'static str, step: Step) {
    let wanted = move |command: &SeenCommand| match name {
        "hello" => hello_of_pool(command),
        name => command.name == name,
    };
    node.script().when(wanted, step);
}

const STEPS: [&str; 3] = ["hello", "saslStart", "saslContinue"];

/// M6 M30
#[tokio::test]
async fn every_step_that_breaks_is_retried() {
    for name in STEPS {
        for step in [
            Step::close_before(),
            Step::half_reply(),
            Step::code(91),
            Step::code(189).with("code", 189.0),
        ] {
            // Without a login the slow key derivation is skipped.
            let (node, target) = if name == "hello" {
                let node = node(2).await;
                let target = node.uri();
                (node, target)
            } else {
                with_user("").await
            };
            fail(&node, name, step);
            let answer = answer(several(&target, [find()])).await;
            assert_mended(&answer);
            assert_eq!(answer["documents"], 2);
            assert_eq!(
                json!(each(&answer, "stage")),
                json!(["dispatch", "response"])
            );
            assert_eq!(
                json!(events(&answer, "event")),
                json!(["started", "succeeded"])
            );
            assert_eq!(sent(&node).len(), 1, "the command was sent once");
            assert_eq!(each(&answer, "backend"), [node.address(), node.address()]);
        }
    }
}

/// M3 M6: the socket timeout also applies during the handshake.
#[tokio::test]
async fn a_step_that_is_not_answered_is_retried() {
    for name in STEPS {
        let (node, target) = with_user("socketTimeoutMS=500").await;
        fail(&node, name, Step::hang());
        let answer = answer(several(&target, [find()])).await;
        assert_mended(&answer);
        assert_eq!(answer["attempts"][0]["reason"], "MONGODB_NETWORK_ERROR");
        // The time limit of connecting is 10 s.
        assert!(crate::ms(&answer["elapsed_ms"]) < 5000.0, "{answer}");
    }
}

/// M6 M8: a refused login, and any other code, is final.
#[tokio::test]
async fn another_code_in_the_handshake_is_final() {
    for name in STEPS {
        for code in [18, 11601, 13] {
            let (node, target) = with_user("").await;
            fail(&node, name, Step::code(code));
            let answer = answer(several(&target, [find()])).await;
            assert_failed(&answer, 1, code, "first");
            assert_eq!(answer["attempts"][0]["stage"], "dispatch", "{answer}");
            assert_eq!(answer["events"], json!([]));
            assert_eq!(sent(&node).len(), 0);
        }
    }
}

/// M6
#[tokio::test]
async fn a_wrong_password_is_final() {
    let (node, target) = with_user("").await;
    let answer = answer(several(&target.replace("secret", "guess"), [find()])).await;
    assert_failed(&answer, 1, 18, "first");
    assert_eq!(answer["code_name"], "AuthenticationFailed");
    assert_eq!(node.seen_named("saslStart").len(), 1);
}

/// M30: it uses the only retry.
#[tokio::test]
async fn a_failed_handshake_counts_as_the_first_attempt() {
    for name in STEPS {
        let (node, target) = with_user("").await;
        fail(&node, name, Step::close_before());
        node.script().on("find", Step::code(UNREACHABLE));
        let answer = answer(several(&target, [find()])).await;
        assert_failed(&answer, 2, UNREACHABLE, "last");
        assert_eq!(answer["stopped"], "attempts");
    }
}

/// M29: of two failed handshakes the first is raised.
#[tokio::test]
async fn a_second_failed_handshake_raises_the_first_failure() {
    for name in STEPS {
        let (node, target) = with_user("").await;
        fail(&node, name, Step::code(91));
        fail(&node, name, Step::code(11600));
        let answer = answer(several(&target, [find()])).await;
        assert_failed(&answer, 2, 91, "first");
        assert_eq!(sent(&node).len(), 0);
    }
}

/// M14: no retry, no second handshake.
#[tokio::test]
async fn a_failed_handshake_of_what_is_not_eligible_is_final() {
    for (op, options) in [
        ("find", "retryReads=false"),
        ("txnFind", ""),
        ("insertOne", ""),
        ("runCommandFind", ""),
    ] {
        let (node, target) = with_user(options).await;
        fail(&node, "saslContinue", Step::code(91));
        let answer = answer(several(&target, [json!({"op": op})])).await;
        assert_failed(&answer, 1, 91, "first");
        assert_eq!(node.seen_named("saslStart").len(), 1, "{op}");
    }
}

/// Each connection of the pool logs in before its first command; the monitor does not.
#[tokio::test]
async fn a_connection_logs_in_once() {
    let (node, target) = with_user("appName=calls").await;
    let answers = crate::answers(several(&target, [find(), find()])).await;
    assert!(
        answers.iter().all(|answer| answer["documents"] == 2),
        "{answers:?}"
    );
    let order = |connection| {
        let seen = node.seen().into_iter();
        let on = seen.filter(move |command| command.connection == connection);
        on.map(|command| command.name).collect::<Vec<_>>()
    };
    assert_eq!(
        order(2),
        ["hello", "saslStart", "saslContinue", "find", "find"]
    );
    assert!(order(1).iter().all(|name| name == "hello"));
    let hello = &node.seen_named("hello")[0].document;
    let application = hello
        .get_document("client")
        .unwrap()
        .get_document("application");
    assert_eq!(application.unwrap().get_str("name"), Ok("calls"));
    assert_eq!(answers[0]["code"], Value::Null);
}
