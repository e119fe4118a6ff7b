//! Calls without failures: the operations, fields and options of the contract.

use bson::oid::ObjectId;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, assert_times, each};

#[tokio::test]
async fn documents_are_counted_in_each_way() {
    let node = node(5).await;
    let expected = [
        ("find", 5),
        ("findOne", 1),
        ("findBatch", 5),
        ("aggregate", 5),
        ("count", 5),
        ("countDocuments", 5),
        ("distinct", 5),
        ("listDatabases", 1),
        ("listCollections", 1),
        ("listIndexes", 1),
        ("watch", 0),
        ("mapReduce", 1),
        ("runCommandFind", 5),
        ("txnFind", 5),
        ("insertOne", 1),
    ];
    let calls = expected.map(|(op, _)| json!({"call": op, "op": op}));
    let answers = answers(several(&node.uri(), calls)).await;
    for (answer, (op, documents)) in answers.iter().zip(expected) {
        assert_eq!(answer["call"], op);
        assert_eq!(answer["documents"], documents, "{answer}");
        assert_eq!(answer["stopped"], "success");
        for field in ["code", "code_name", "error_from", "error", "timeout"] {
            assert_eq!(answer[field], Value::Null, "{field}: {answer}");
        }
        assert_eq!(answer["labels"], json!([]));
        assert_eq!(answer["reasons"], json!([]));
        assert_eq!(json!(each(answer, "kind")), json!(["initial"]));
        assert_eq!(json!(each(answer, "verdict")), json!(["success"]));
        assert_eq!(each(answer, "backend"), [node.address()]);
        assert_times(answer);
        assert_paired(answer);
    }
}

#[tokio::test]
async fn nothing_is_counted_as_nothing() {
    let node = node(0).await;
    let ops = ["find", "findOne", "count", "countDocuments", "distinct"];
    let calls = ops.map(|op| json!({"op": op, "database": "none", "collection": "empty"}));
    for answer in answers(several(&node.uri(), calls)).await {
        assert_eq!(answer["documents"], 0, "{answer}");
    }
    let [first, ..] = &sent(&node)[..] else {
        panic!("nothing sent")
    };
    assert_eq!(
        (first.database.as_str(), first.document.get_str("find")),
        ("none", Ok("empty"))
    );
}

#[tokio::test]
async fn options_are_merged_into_the_command() {
    let node = node(5).await;
    let filter = json!({"_id": {"$gte": 1}});
    let calls = [
        json!({"op": "find", "options": {"limit": 2, "filter": filter, "comment": "why"}}),
        json!({"op": "find", "options": {"filter": {"_id": {"$numberLong": "1"}}}}),
        json!({"op": "find", "options": {"filter": {"_id": {"$oid": "65a0b1c2d3e4f5a6b7c8d9e0"}}}}),
        json!({"op": "count", "options": {"query": filter}}),
        json!({"op": "distinct", "options": {"key": "x", "query": filter}}),
        json!({"op": "findBatch", "options": {"batchSize": 3}}),
        json!({"op": "aggregate", "options": {"cursor": {"batchSize": 2}, "maxTimeMS": 5000}}),
    ];
    let answers = answers(several(&node.uri(), calls)).await;
    let counts: Vec<_> = answers
        .iter()
        .map(|answer| answer["documents"].clone())
        .collect();
    assert_eq!(json!(counts), json!([2, 1, 0, 4, 4, 5, 5]), "{answers:?}");
    let finds = node.seen_named("find");
    assert_eq!(finds[0].document.get_str("comment"), Ok("why"));
    assert_eq!(
        finds[0].document.get_document("filter"),
        Ok(&doc! { "_id": { "$gte": 1 } })
    );
    let id: ObjectId = "65a0b1c2d3e4f5a6b7c8d9e0".parse().unwrap();
    assert_eq!(
        finds[2].document.get_document("filter"),
        Ok(&doc! { "_id": id })
    );
    let sizes: Vec<_> = node
        .seen_named("getMore")
        .iter()
        .map(|more| more.document.get_i32("batchSize"))
        .collect();
    assert_eq!(sizes, [Ok(3), Ok(2), Ok(2)]);
}

/// The commands that drivers send for these operations.
#[tokio::test]
async fn each_operation_sends_its_command() {
    let node = node(1).await;
    let ops = [
        "findOne",
        "countDocuments",
        "watch",
        "listDatabases",
        "listCollections",
        "listIndexes",
    ];
    answers(several(&node.uri(), ops.map(|op| json!({"op": op})))).await;
    let sent = sent(&node);
    let find = &sent[0].document;
    assert_eq!(
        (find.get_i32("limit"), find.get_bool("singleBatch")),
        (Ok(1), Ok(true))
    );
    let stages = |place: usize| sent[place].document.get_array("pipeline").unwrap();
    assert_eq!(stages(1).len(), 2);
    assert!(
        stages(2)[0]
            .as_document()
            .unwrap()
            .contains_key("$changeStream")
    );
    let databases: Vec<_> = sent
        .iter()
        .map(|command| command.database.as_str())
        .collect();
    assert_eq!(databases, ["db", "db", "db", "admin", "db", "db"]);
}

#[tokio::test]
async fn parallel_calls_run_at_once() {
    let node = node(1).await;
    for _ in 0..4 {
        node.script().on(
            "find",
            reattempt_testbed::mongodb::Step::pass().after(millis(500)),
        );
    }
    let document = several(&node.uri(), [(); 4].map(|()| find()));
    let began = tokio::time::Instant::now();
    let answers = answers(with(document, "concurrency", json!("parallel"))).await;
    assert!(
        answers.iter().all(|answer| answer["documents"] == 1),
        "{answers:?}"
    );
    assert!(
        began.elapsed() < millis(1900),
        "one after another would take 2 s"
    );
}

#[tokio::test]
async fn times_are_in_order() {
    let node = node(1).await;
    node.script().on(
        "find",
        reattempt_testbed::mongodb::Step::code(UNREACHABLE).after(millis(100)),
    );
    let answer = answer(one(&node, find())).await;
    assert_mended(&answer);
    assert_times(&answer);
    assert!(
        crate::ms(&answer["attempts"][0]["end_ms"]) >= 99.0,
        "{answer}"
    );
}

/// A reply may be as long as the protocol allows.
#[tokio::test]
async fn a_long_reply_is_read() {
    let node = node(0).await;
    let long = "x".repeat(10 << 20);
    node.store()
        .insert("db", "c", [doc! { "_id": 1, "long": long }])
        .unwrap();
    assert_eq!(answer(one(&node, find())).await["documents"], 1);
}
