//! `reattempt call` over MongoDB's wire protocol.

use bson::doc;
use reattempt_testbed::mongodb::{Node, ReplicaSet, Step};
use serde_json::{Value, json};

use super::{answer, assert_times, document, each, with};

/// PrimarySteppedDown.
const STEPPED_DOWN: i32 = 189;

async fn node(documents: i32) -> Node {
    let node = Node::start().await.unwrap();
    let documents = (0..documents).map(|n| doc! { "_id": n });
    node.store()
        .insert("db", "c", documents.collect::<Vec<_>>())
        .unwrap();
    node
}

fn one(node: &Node, call: Value) -> Value {
    document("mongodb", &node.uri(), json!([call]))
}

fn events(answer: &Value, field: &str) -> Vec<Value> {
    let events = answer["events"].as_array().unwrap();
    events.iter().map(|event| event[field].clone()).collect()
}

#[tokio::test]
async fn documents_are_counted_in_each_way() {
    let node = node(5).await;
    for (op, documents) in [
        ("find", 5),
        ("findOne", 1),
        ("findBatch", 5),
        ("aggregate", 5),
        ("count", 5),
        ("countDocuments", 5),
        ("distinct", 5),
        ("runCommandFind", 5),
    ] {
        let answer = answer(one(&node, json!({"call": op, "op": op}))).await;
        assert_eq!(answer["documents"], documents, "{answer}");
        assert_eq!(answer["stopped"], "success");
        assert_eq!(answer["code"], Value::Null);
        assert_eq!(answer["labels"], json!([]));
        assert_eq!(answer["error_from"], Value::Null);
        assert_eq!(each(&answer, "verdict"), ["success"]);
        assert_eq!(events(&answer, "event")[..2], ["started", "succeeded"]);
    }
}

#[tokio::test]
async fn a_read_is_retried_once_with_one_operation_id() {
    let node = node(1).await;
    node.script().on("find", Step::code(STEPPED_DOWN));
    let answer = answer(one(&node, json!({"op": "find"}))).await;
    assert_eq!(answer["documents"], 1, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "retry"]);
    assert_eq!(answer["reasons"], json!(["MONGODB_NODE_IS_RECOVERING"]));
    assert_eq!(each(&answer, "backend")[0], node.address());
    assert_eq!(
        events(&answer, "event"),
        ["started", "failed", "started", "succeeded"]
    );
    let ids = events(&answer, "operation_id");
    assert!(ids.iter().all(|id| *id == ids[0]), "{answer}");
    let requests = events(&answer, "request_id");
    assert_ne!(requests[0], requests[2]);
    assert_times(&answer);
}

#[tokio::test]
async fn the_second_error_is_raised_with_code_name_and_labels() {
    let node = node(1).await;
    node.script().on("find", Step::code(STEPPED_DOWN)).on(
        "find",
        Step::error(91, "ShutdownInProgress").label("SomeLabel"),
    );
    let answer = answer(one(&node, json!({"op": "find"}))).await;
    assert_eq!(answer["documents"], Value::Null);
    assert_eq!(answer["code"], 91, "{answer}");
    assert_eq!(answer["code_name"], "ShutdownInProgress");
    assert_eq!(answer["labels"], json!(["SomeLabel"]));
    assert_eq!(answer["error_from"], "last");
    assert_eq!(answer["stopped"], "attempts");
}

#[tokio::test]
async fn what_is_not_eligible_runs_once() {
    let node = node(3).await;
    for (op, command) in [
        ("insertOne", "insert"),
        ("txnFind", "find"),
        ("runCommandFind", "find"),
        ("findBatch", "getMore"),
    ] {
        node.script().on(command, Step::code(STEPPED_DOWN));
        let answer = answer(one(&node, json!({"op": op}))).await;
        assert_eq!(answer["code"], STEPPED_DOWN, "{op}: {answer}");
        assert_eq!(answer["error_from"], "first");
        assert_eq!(each(&answer, "n").len(), 1);
        node.script().clear();
    }
    let off = format!("{}?retryReads=false", node.uri());
    node.script().on("find", Step::code(STEPPED_DOWN));
    let answer = answer(document("mongodb", &off, json!([{"op": "find"}]))).await;
    assert_eq!(answer["code"], STEPPED_DOWN);
}

#[tokio::test]
async fn later_codes_are_retried_where_the_document_asks_for_it() {
    for (rules, documents) in [("seed_2022", Value::Null), ("current", json!(1))] {
        let node = node(1).await;
        node.script().on("find", Step::code(134));
        let document = with(
            one(&node, json!({"op": "find"})),
            "retryable_reads",
            json!(rules),
        );
        assert_eq!(answer(document).await["documents"], documents, "{rules}");
    }
}

#[tokio::test]
async fn a_retry_goes_to_the_new_primary() {
    let set = ReplicaSet::start(2).await.unwrap();
    let primary = set.primary().unwrap();
    set.nodes()[primary]
        .script()
        .on("find", Step::code(STEPPED_DOWN));
    let document = document(
        "mongodb",
        &set.uri(),
        json!([{"op": "find", "timeout_ms": 20_000}]),
    );
    let running = tokio::spawn(answer(document));
    set.nodes()[primary].until_seen("find", 1).await;
    set.elect(Some(1 - primary));
    let answer = running.await.unwrap();
    assert_eq!(answer["documents"], 0, "{answer}");
    let backends = each(&answer, "backend");
    assert_eq!(backends[0], set.nodes()[primary].address());
}

#[tokio::test]
async fn options_are_merged_into_the_command() {
    let node = node(5).await;
    let call = json!({"op": "find", "options": {"limit": 2, "filter": {"_id": {"$gte": 1}}}});
    let answer = answer(one(&node, call)).await;
    assert_eq!(answer["documents"], 2, "{answer}");
    let seen = node.seen_named("find");
    assert_eq!(
        seen[0].document.get_document("filter").unwrap(),
        &doc! {"_id": {"$gte": 1}}
    );
}

#[tokio::test]
async fn a_timeout_ends_a_read_that_hangs() {
    let node = node(1).await;
    node.script().on("find", Step::hang());
    let answer = answer(one(&node, json!({"op": "find", "timeout_ms": 400}))).await;
    assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    assert_eq!(answer["stopped"], "deadline");
    assert_eq!(events(&answer, "event"), ["started", "failed"]);
}
