//! The options of the connection string (MongoClient Configuration).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, run, text};

/// M9 M11 M14
#[tokio::test]
async fn retry_reads_switches_retries_off_and_on() {
    for (options, attempts) in [
        ("", 2),
        ("retryReads=true", 2),
        ("retryReads=false", 1),
        ("retryreads=false", 1),
        ("RETRYREADS=false", 1),
        ("retryWrites=false", 2),
        ("retryWrites=true&retryReads=false", 1),
    ] {
        for step in [
            Step::code(UNREACHABLE),
            Step::close_before(),
            Step::code(STEPPED_DOWN),
        ] {
            let node = node(1).await;
            node.script().on("find", step);
            let answer = answer(several(&uri(&node, options), [find()])).await;
            if attempts == 2 {
                assert_mended(&answer);
            } else {
                assert_eq!(
                    crate::each(&answer, "verdict"),
                    ["fatal"],
                    "{options}: {answer}"
                );
                assert_eq!(answer["error_from"], "first");
                assert_paired(&answer);
            }
            assert_eq!(sent(&node).len(), attempts, "{options}");
        }
    }
}

async fn refused(target: &str, call: Value) -> String {
    let output = run(&["call", "--json"], several(target, [call]).to_string()).await;
    assert_eq!(output.status.code(), Some(2), "{target}");
    assert_eq!(text(&output.stdout), "", "{target}");
    let error = text(&output.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// M11: an invalid value is a fault, and nothing is sent.
#[tokio::test]
async fn a_value_that_cannot_be_is_a_fault_that_names_the_option() {
    let node = node(1).await;
    for (option, name) in [
        ("retryReads=True", "retryReads"),
        ("retryReads=TRUE", "retryReads"),
        ("retryReads=1", "retryReads"),
        ("retryReads=", "retryReads"),
        ("retryReads=yes", "retryReads"),
        ("retryReads=true&retryReads=true", "retryReads"),
        ("retryWrites=no", "retryWrites"),
        ("maxPoolSize=-1", "maxPoolSize"),
        ("socketTimeoutMS=soon", "socketTimeoutMS"),
        ("waitQueueTimeoutMS=1.5", "waitQueueTimeoutMS"),
        ("serverSelectionTimeoutMS=0", "serverSelectionTimeoutMS"),
        ("heartbeatFrequencyMS=0", "heartbeatFrequencyMS"),
        ("readPreference=fastest", "readPreference"),
        ("directConnection=1", "directConnection"),
        ("authMechanism=PLAIN", "authMechanism"),
        ("maxAdaptiveRetries=-1", "maxAdaptiveRetries"),
        ("enableOverloadRetargeting=2", "enableOverloadRetargeting"),
        ("timeoutMS=-5", "timeoutMS"),
        ("tls=true", "tls"),
    ] {
        let error = refused(&uri(&node, option), find()).await;
        assert!(
            error.contains("$.target") && error.contains(name),
            "{option}: {error}"
        );
    }
    assert_eq!(node.connections(), 0);
}

/// An unknown option is a warning and has no effect.
#[tokio::test]
async fn an_unknown_option_is_a_warning() {
    let node = node(1).await;
    let document = several(&uri(&node, "retryRead=false"), [find()]);
    let output = run(&["call", "--json"], document.to_string()).await;
    assert!(output.status.success());
    assert!(
        text(&output.stderr).contains("retryRead"),
        "{}",
        text(&output.stderr)
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["documents"], 1);
}

/// M10: a call cannot set whether it is retried.
#[tokio::test]
async fn retry_reads_is_no_option_of_a_call() {
    let node = node(1).await;
    node.script().on("find", Step::code(UNREACHABLE));
    let call = json!({"op": "find", "retryReads": true, "retry_reads": true});
    let document = several(&uri(&node, "retryReads=false"), [call]);
    let output = run(&["call", "--json"], document.to_string()).await;
    assert!(text(&output.stderr).contains("$.calls[0].retryReads: unknown field"));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_failed(&answer, 1, UNREACHABLE, "first");
    assert_eq!(sent(&node).len(), 1);
}

#[tokio::test]
async fn faults_of_the_document_name_their_place() {
    let node = node(1).await;
    for (target, call, place) in [
        ("mongodb://", find(), "$.target"),
        ("http://127.0.0.1:1/", find(), "$.target"),
        ("mongodb+srv://example.org/", find(), "$.target"),
        (&node.uri(), json!({}), "$.calls[0].op"),
        (&node.uri(), json!({"op": "getMore"}), "$.calls[0].op"),
        (&node.uri(), json!({"op": "Find"}), "$.calls[0].op"),
        (
            &node.uri(),
            json!({"op": "find", "options": []}),
            "$.calls[0].options",
        ),
        (
            &node.uri(),
            json!({"op": "find", "options": {"filter": {"$oid": 1}}}),
            "$.calls[0].options",
        ),
        (
            &node.uri(),
            json!({"op": "find", "collection": 5}),
            "$.calls[0].collection",
        ),
    ] {
        let error = refused(target, call).await;
        assert!(error.contains(place), "{error}");
    }
    assert_eq!(
        node.connections(),
        0,
        "nothing is sent of a document with a fault"
    );
    let document = with(one(&node, find()), "retryable_reads", json!("seed_2019"));
    let output = run(&["call", "--json"], document.to_string()).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("$.retryable_reads"));
}
