//! The list of retryable response codes.

use reattempt_testbed::kv::{Node, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, assert_times, each, with};

/// The statuses that RFC 0049 lists.
const LISTED: [(u16, &str); 5] = [
    (0x86, "KV_TEMPORARY_FAILURE"),
    (0x09, "KV_LOCKED"),
    (0xa2, "KV_SYNC_WRITE_IN_PROGRESS"),
    (0xa4, "KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS"),
    (0x88, "KV_COLLECTION_OUTDATED"),
];

/// The statuses that shipping clients added later.
const LATER: [(u16, &str); 4] = [
    (0x85, "KV_TEMPORARY_FAILURE"),
    (0x8c, "KV_COLLECTION_OUTDATED"),
    (0x0d, "SERVICE_RESPONSE_CODE_INDICATED"),
    (0x0c, "SERVICE_RESPONSE_CODE_INDICATED"),
];

/// One call for each status; the node returns the status once, then success.
async fn each_once(statuses: &[u16], call: Value, current: bool) -> (Node, Vec<Value>) {
    let node = Node::builder()
        .error_map(permissive(statuses))
        .start()
        .await
        .unwrap();
    let calls = vec![call; statuses.len()];
    for status in statuses {
        node.script().push(Step::status(*status));
        node.script().push(Step::status(0));
    }
    let document = with(
        several(&node, json!(calls)),
        "current_server_codes",
        json!(current),
    );
    (node, answers(document).await)
}

/// A map that makes all of these statuses retryable.
fn permissive(statuses: &[u16]) -> String {
    let entry = |status: &u16| {
        let attrs =
            json!({"name": "N", "desc": "d", "attrs": ["retry-now", "retry-later", "auto-retry"]});
        (format!("{status:x}"), attrs)
    };
    let errors: serde_json::Map<_, _> = statuses.iter().map(entry).collect();
    json!({"version": 2, "revision": 9, "errors": errors}).to_string()
}

/// C16 C34 C36 C37: also for non-idempotent requests.
#[tokio::test]
async fn the_listed_statuses_are_sent_again_with_their_reason() {
    let statuses = LISTED.map(|(status, _)| status);
    let (node, answers) = each_once(&statuses, write(), false).await;
    for (answer, (status, reason)) in answers.iter().zip(LISTED) {
        assert_eq!(answer["status"], 0, "{status:#x}: {answer}");
        assert_eq!(answer["reasons"], json!([reason]));
        assert_eq!(answer["stopped"], "success");
        assert_eq!(each(answer, "kind"), ["initial", "retry"]);
        assert_eq!(each(answer, "verdict"), ["retry", "success"]);
        assert_eq!(each(answer, "reason"), [json!(reason), Value::Null]);
        assert_eq!(each(answer, "stage"), ["response", "response"]);
        assert_eq!(each(answer, "delay_ms"), delays(&[1]));
        assert_eq!(answer["error"], Value::Null);
        assert_times(answer);
    }
    assert_eq!(node.seen_data().len(), 2 * LISTED.len());
}

/// C16 C36 C37: whatever the error map contains for them.
#[tokio::test]
async fn every_other_known_status_is_final() {
    let known = reattempt_couchbase::kv::Status::KNOWN
        .iter()
        .map(|status| status.0);
    let listed = LISTED.map(|(status, _)| status);
    let works = [0x00, 0x07, 0x21, 0xa6, 0xa7, 0xcd];
    let statuses: Vec<_> = known
        .filter(|status| !listed.contains(status) && !works.contains(status))
        .collect();
    assert!(statuses.contains(&0x82) && statuses.contains(&0x85) && statuses.contains(&0xa3));
    let node = Node::builder()
        .error_map(permissive(&statuses))
        .start()
        .await
        .unwrap();
    for status in &statuses {
        node.script().push(Step::status(*status));
    }
    let calls = vec![get(); statuses.len()];
    let answers = answers(several(&node, json!(calls))).await;
    for (answer, status) in answers.iter().zip(&statuses) {
        assert_final(answer, *status);
        assert_eq!(each(answer, "reason"), ["UNKNOWN"], "{answer}");
        assert_eq!(each(answer, "stage"), ["response"]);
    }
    assert_eq!(node.seen_data().len(), statuses.len());
}

/// C36 C38: four further statuses with the option, and none of them without.
#[tokio::test]
async fn the_later_statuses_are_an_option() {
    let statuses = LATER.map(|(status, _)| status);
    let (_, answers) = each_once(&statuses, write(), true).await;
    for (answer, (status, reason)) in answers.iter().zip(LATER) {
        assert_eq!(answer["status"], 0, "{status:#x}: {answer}");
        assert_eq!(answer["reasons"], json!([reason]));
        assert_eq!(each(answer, "delay_ms"), delays(&[1]));
    }
    for status in statuses {
        let node = Node::scripted([Step::status(status)]).await.unwrap();
        assert_final(&answer(one(&node, get())).await, status);
        assert_eq!(node.seen_data().len(), 1);
    }
}

/// C38: the option also triggers one configuration fetch.
#[tokio::test]
async fn config_only_fetches_the_configuration() {
    let node = Node::scripted([Step::status(0x0d)]).await.unwrap();
    let document = one(&node, write());
    let answer = answer(with(document, "current_server_codes", json!(true))).await;
    assert_eq!(answer["stopped"], "success", "{answer}");
    assert_eq!(configs(&node), 2, "at the set-up, and for the status");
    assert_eq!(node.connections(), 1);
}

/// C34 C35
#[tokio::test]
async fn an_unlock_of_a_lock_and_a_failed_lookup_are_final() {
    for (call, status) in [
        (json!({"op": "unlock", "key": "k", "cas": 7}), 0x09),
        (json!({"op": "get_collection_id", "key": "s.c"}), 0x88),
        (json!({"op": "get_collection_id", "key": "s.c"}), 0x8c),
    ] {
        for current in [false, true] {
            let node = Node::scripted([Step::status(status)]).await.unwrap();
            let document = with(
                one(&node, call.clone()),
                "current_server_codes",
                json!(current),
            );
            assert_final(&answer(document).await, status);
            assert_eq!(node.seen_data().len(), 1);
        }
    }
}

/// C39: and the next call gets a new connection.
#[tokio::test]
async fn four_statuses_cost_the_connection() {
    for status in [0x08, 0x1f, 0x25, 0x84] {
        let node = Node::scripted([Step::status(status)]).await.unwrap();
        let answers = answers(several(&node, json!([get(), get()]))).await;
        assert_final(&answers[0], status);
        assert_eq!(answers[1]["status"], 1, "not found: {answers:?}");
        assert_eq!(node.connections(), 2);
    }
    for status in [0x24, 0x20, 0x81, 0x01] {
        let node = Node::scripted([Step::status(status)]).await.unwrap();
        answers(several(&node, json!([get(), get()]))).await;
        assert_eq!(node.connections(), 1, "{status:#x}");
    }
}
