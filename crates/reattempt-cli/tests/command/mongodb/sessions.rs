//! The content of a second attempt (3b and 4: an equivalent command, never the original message).

use bson::{Bson, Timestamp};
use reattempt_testbed::mongodb::Step;
use serde_json::json;

use super::*;
use crate::{answer, answers, each};

fn cluster_time(command: &SeenCommand) -> Option<Timestamp> {
    let time = command.document.get_document("$clusterTime").ok()?;
    time.get_timestamp("clusterTime").ok()
}

/// M25 M26: a new message with the highest cluster time seen, in the same session.
#[tokio::test]
async fn the_retry_is_a_new_message_in_the_same_session() {
    let node = node(1).await;
    let late = Timestamp {
        time: 1_800_000_000,
        increment: 7,
    };
    let gossip = doc! { "clusterTime": late, "signature": { "keyId": 5_i64 } };
    // `reply` does not add the node's cluster time.
    let failed = doc! { "ok": 0, "code": 6, "errmsg": "by script", "$clusterTime": gossip.clone() };
    node.script().on("find", Step::reply(failed));
    let answer = answer(one(&node, find())).await;
    assert_mended(&answer);
    let [first, second] = &sent(&node)[..] else {
        panic!("{answer}")
    };
    assert_ne!(first.request_id, second.request_id);
    assert_eq!(first.document.get("lsid"), second.document.get("lsid"));
    assert!(first.document.contains_key("lsid"));
    assert_eq!(cluster_time(first), None, "nothing was seen yet");
    assert_eq!(second.document.get_document("$clusterTime"), Ok(&gossip));
    let ids = events(&answer, "request_id");
    assert_eq!(
        json!([first.request_id, second.request_id]),
        json!([ids[0], ids[2]])
    );
}

/// M25: an older time that arrives later does not count.
#[tokio::test]
async fn the_highest_cluster_time_is_sent() {
    let node = node(1).await;
    let at = |time| doc! { "clusterTime": Timestamp { time, increment: 1 } };
    for time in [1_900_000_000, 1_800_000_000] {
        let reply = doc! { "ok": 0, "code": 50, "$clusterTime": at(time) };
        node.script().on("find", Step::reply(reply));
    }
    node.script().on("find", Step::code(UNREACHABLE));
    answers(several(&node.uri(), [find(), find(), find()])).await;
    let times: Vec<_> = sent(&node)
        .iter()
        .filter_map(cluster_time)
        .map(|time| time.time)
        .collect();
    assert_eq!(times, [1_900_000_000; 3]);
}

/// M25: the operation time of the session advances the read concern.
#[tokio::test]
async fn a_later_operation_time_moves_the_read_concern_on() {
    let node = node(1).await;
    let (asked, seen) = (
        [1_700_000_000, 1],
        Timestamp {
            time: 1_750_000_000,
            increment: 2,
        },
    );
    node.script()
        .on("find", Step::code(UNREACHABLE).with("ok", 0));
    node.script().clear();
    node.script().on(
        "find",
        Step::reply(doc! { "ok": 0, "code": 6, "operationTime": seen }),
    );
    let after = json!({"$timestamp": {"t": asked[0], "i": asked[1]}});
    let options = json!({"readConcern": {"level": "majority", "afterClusterTime": after}});
    let answer = answer(one(&node, json!({"op": "find", "options": options}))).await;
    assert_mended(&answer);
    let times: Vec<_> = sent(&node)
        .iter()
        .map(|command| {
            command
                .document
                .get_document("readConcern")
                .unwrap()
                .get_timestamp("afterClusterTime")
                .unwrap()
        })
        .collect();
    assert_eq!(
        times,
        [
            Timestamp {
                time: asked[0],
                increment: asked[1]
            },
            seen
        ]
    );
}

/// M26: every call has its own session; ids are never reused.
#[tokio::test]
async fn every_call_has_a_session_of_its_own() {
    let node = node(1).await;
    let answers = answers(several(&node.uri(), [find(), find(), find()])).await;
    let sessions: Vec<_> = sent(&node)
        .iter()
        .map(|seen| seen.document.get("lsid").cloned())
        .collect();
    assert!(sessions[0] != sessions[1] && sessions[1] != sessions[2] && sessions[0] != sessions[2]);
    let ids: Vec<_> = answers
        .iter()
        .map(|answer| events(answer, "operation_id")[0].clone())
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

/// M14: a transaction starts with its first command, which is never sent twice.
#[tokio::test]
async fn a_find_in_a_transaction_says_so_and_runs_once() {
    let set = replica_set(2).await;
    for step in [
        Step::code(STEPPED_DOWN),
        Step::close_before(),
        Step::code(251),
    ] {
        set.nodes()[0].script().on("find", step);
        let answer = answer(several(&set.uri(), [json!({"op": "txnFind"})])).await;
        assert_eq!(each(&answer, "verdict"), ["fatal"], "{answer}");
        assert_eq!(answer["error_from"], "first");
        assert_paired(&answer);
    }
    let sent = sent(&set.nodes()[0]);
    assert_eq!(sent.len(), 3);
    for command in sent {
        let field = |name: &str| command.document.get(name).cloned();
        assert_eq!(field("autocommit"), Some(Bson::Boolean(false)));
        assert_eq!(field("startTransaction"), Some(Bson::Boolean(true)));
        assert_eq!(field("txnNumber"), Some(Bson::Int64(1)));
        assert!(field("lsid").is_some());
    }
}

/// M24: the command is encoded for the selected server.
#[tokio::test]
async fn a_server_without_sessions_is_sent_none() {
    let node = node(1).await;
    node.script().handler(|command| {
        let hello = command.name == "hello";
        hello.then(|| {
            Step::ok(doc! { "isWritablePrimary": true, "maxWireVersion": 6, "minWireVersion": 0 })
        })
    });
    let answer = answer(one(&node, find())).await;
    assert_eq!(answer["documents"], 1, "{answer}");
    assert!(!sent(&node)[0].document.contains_key("lsid"));
}
