//! Which operations are retried (Supported and Unsupported Read Operations).

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

/// The retried operations, with the command that each sends and its result for five documents.
const RETRIED: [(&str, &str, u64); 13] = [
    ("find", "find", 5),
    ("findOne", "find", 1),
    ("findBatch", "find", 5),
    ("aggregate", "aggregate", 5),
    ("count", "count", 5),
    ("countDocuments", "aggregate", 5),
    ("distinct", "distinct", 5),
    ("listDatabases", "listDatabases", 1),
    ("listCollections", "listCollections", 1),
    ("listIndexes", "listIndexes", 1),
    ("watch", "aggregate", 0),
    ("find", "find", 5),
    ("aggregate", "aggregate", 5),
];

/// M1 M16
#[tokio::test]
async fn a_read_is_sent_a_second_time() {
    for step in [Step::code(UNREACHABLE), Step::close_before()] {
        let node = node(5).await;
        for (op, command, documents) in RETRIED {
            let before = node.seen_named(command).len();
            node.script().on(command, step.clone());
            let answer = answer(one(&node, json!({"call": op, "op": op}))).await;
            assert_mended(&answer);
            assert_eq!(answer["documents"], documents, "{answer}");
            let seen = node.seen_named(command);
            assert_eq!(seen.len(), before + 2, "{op}");
            assert_eq!(logical(&seen[before]), logical(&seen[before + 1]), "{op}");
        }
    }
}

/// M19
#[tokio::test]
async fn these_are_sent_once() {
    let node = node(5).await;
    for (op, command) in [
        ("mapReduce", "mapReduce"),
        ("runCommandFind", "find"),
        ("aggregateOut", "aggregate"),
        ("aggregateMerge", "aggregate"),
        ("insertOne", "insert"),
        ("txnFind", "find"),
    ] {
        for step in [
            Step::code(UNREACHABLE),
            Step::code(STEPPED_DOWN),
            Step::close_before(),
        ] {
            let before = node.seen_named(command).len();
            let code = match &step {
                step if *step == Step::code(UNREACHABLE) => json!(UNREACHABLE),
                step if *step == Step::code(STEPPED_DOWN) => json!(STEPPED_DOWN),
                _ => Value::Null,
            };
            node.script().on(command, step);
            let answer = answer(one(&node, json!({"op": op}))).await;
            assert_failed(&answer, 1, code, "first");
            assert_eq!(
                json!(each(&answer, "verdict")),
                json!(["fatal"]),
                "{answer}"
            );
            assert_eq!(node.seen_named(command).len(), before + 1, "{op}");
        }
    }
    assert!(!node.store().collections("db").contains(&"c_out".to_owned()));
}

/// M19: the same operations succeed without failures.
#[tokio::test]
async fn these_work_when_nothing_fails() {
    let node = node(5).await;
    let ops = [
        "mapReduce",
        "runCommandFind",
        "aggregateOut",
        "aggregateMerge",
        "insertOne",
        "txnFind",
    ];
    let calls = ops.map(|op| json!({"call": op, "op": op}));
    for (answer, documents) in answers(several(&node.uri(), calls))
        .await
        .iter()
        .zip([1, 5, 0, 0, 1, 6])
    {
        assert_eq!(answer["documents"], documents, "{answer}");
        assert_eq!(answer["stopped"], "success", "{answer}");
        assert_paired(answer);
    }
    assert_eq!(node.store().documents("db", "c_out").len(), 5);
}

/// E6: the code of a write error is not a command's code, even if it is a retryable number; the
/// error is returned to the caller.
#[tokio::test]
async fn a_document_that_was_not_written_is_an_error_of_one_attempt() {
    let node = node(0).await;
    for (document, named) in [("seed_2022", UNREACHABLE), ("current", 11_000)] {
        let error = doc! { "index": 0, "code": named, "errmsg": "not this one" };
        node.script().on(
            "insert",
            Step::pass().with("writeErrors", vec![bson::Bson::from(error)]),
        );
        let mut asked = one(&node, json!({"op": "insertOne"}));
        asked["retryable_reads"] = json!(document);
        let answer = answer(asked).await;
        assert_eq!(answer["code"], named, "{answer}");
        assert_eq!(answer["documents"], Value::Null, "{answer}");
        assert_eq!(
            answer["error"],
            format!("write error {named}: not this one")
        );
        assert_eq!(
            answer["attempts"].as_array().map(Vec::len),
            Some(1),
            "{answer}"
        );
        assert_paired(&answer);
    }
}

/// M16 M19: a stage that writes, whatever its source, makes the aggregate a write.
#[tokio::test]
async fn a_pipeline_given_as_an_option_is_looked_at() {
    let node = node(2).await;
    for op in ["aggregate", "countDocuments", "watch"] {
        for stage in [json!({"$out": "o"}), json!({"$merge": {"into": "o"}})] {
            node.script().on("aggregate", Step::code(UNREACHABLE));
            let options = json!({"pipeline": [{"$match": {}}, stage]});
            let answer = answer(one(&node, json!({"op": op, "options": options}))).await;
            assert_failed(&answer, 1, UNREACHABLE, "first");
        }
    }
    node.script().on("aggregate", Step::code(UNREACHABLE));
    let options = json!({"pipeline": [{"$match": {"_id": 1}}]});
    let answer = answer(one(&node, json!({"op": "aggregate", "options": options}))).await;
    assert_mended(&answer);
    assert_eq!(answer["documents"], 1);
}

/// M19: the find is retried, the `getMore` is not, and the earlier batches are not returned as the
/// whole result.
/// it were all.
#[tokio::test]
async fn get_more_is_sent_once() {
    for step in [
        Step::code(UNREACHABLE),
        Step::close_before(),
        Step::half_reply(),
    ] {
        let node = node(5).await;
        node.script().on("getMore", step);
        let answer = answer(one(&node, json!({"op": "findBatch"}))).await;
        assert_eq!(answer["documents"], Value::Null, "{answer}");
        assert_eq!(answer["error_from"], "first", "{answer}");
        assert_ne!(answer["stopped"], "success", "{answer}");
        assert_eq!(
            json!(events(&answer, "command")),
            json!(["find", "find", "getMore", "getMore"])
        );
        assert_paired(&answer);
        let counts = ["find", "getMore"].map(|name| node.seen_named(name).len());
        assert_eq!(counts, [1, 1]);
    }
}

/// M1 M16: a cursor is read in batches of two from the server that opened it, in one session.
#[tokio::test]
async fn a_find_in_batches_is_retried_before_its_first_batch() {
    let node = node(5).await;
    node.script().on("find", Step::code(UNREACHABLE));
    let answer = answer(one(&node, json!({"op": "findBatch"}))).await;
    assert_mended(&answer);
    assert_eq!(answer["documents"], 5);
    let commands: Vec<_> = sent(&node).into_iter().map(|seen| seen.name).collect();
    assert_eq!(commands, ["find", "find", "getMore", "getMore"]);
    let more = node.seen_named("getMore");
    assert_eq!(more[0].document.get_i32("batchSize"), Ok(2));
    let find = node.seen_named("find");
    assert_eq!(more[0].document.get("lsid"), find[0].document.get("lsid"));
}

/// The replies of a server whose cursor never ends.
fn endless(node: &Node, batch: Vec<Document>) {
    let reply = doc! { "cursor": { "id": 7_i64, "ns": "db.c", "nextBatch": batch }, "ok": 1 };
    node.script()
        .handler(move |command| (command.name == "getMore").then(|| Step::reply(reply.clone())));
}

/// The memory and time for a cursor are bounded, whatever the server sends.
#[tokio::test]
async fn a_cursor_without_end_is_bounded_and_the_bound_named() {
    let large = vec![doc! { "text": "x".repeat(6 << 20) }];
    let small = vec![doc! { "_id": 1 }; 40_000];
    for (batch, batches, bound) in [
        (large, 11, "more than 67108864 bytes"),
        (small, 3, "more than 100000 documents"),
    ] {
        let node = node(5).await;
        endless(&node, batch);
        let answer = answer(one(&node, json!({"op": "findBatch"}))).await;
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(bound), "{error}");
        assert_eq!(answer["documents"], Value::Null, "not all of them");
        assert_eq!(answer["stopped"], "committed");
        assert_eq!(node.seen_named("getMore").len(), batches);
    }
}

/// The same bound holds for what comes in a single reply, whatever the cursor says of itself.
#[tokio::test]
async fn a_single_reply_is_bounded_as_a_cursor_is() {
    let node = node(0).await;
    for (op, command) in [
        ("find", "find"),
        ("watch", "aggregate"),
        ("distinct", "distinct"),
    ] {
        for (count, id) in [(100_000, 0_i64), (100_001, 0), (100_001, 7)] {
            let documents = vec![doc! {}; count];
            let step = if op == "distinct" {
                Step::ok(doc! { "values": documents })
            } else {
                let cursor = doc! { "id": id, "ns": "db.c", "firstBatch": documents };
                Step::ok(doc! { "cursor": cursor })
            };
            node.script().on(command, step);
            let answer = answer(one(&node, json!({"op": op}))).await;
            if count == 100_000 {
                assert_eq!(answer["documents"], count, "{answer}");
            } else {
                let error = answer["error"].as_str().unwrap();
                assert!(error.contains("more than 100000 documents"), "{error}");
                assert_eq!(answer["documents"], Value::Null);
            }
        }
    }
    assert!(node.seen_named("getMore").is_empty());
}

/// What says ok and lacks what its command returns is no empty result. It was answered, so it is
/// final and no failure of the network.
#[tokio::test]
async fn an_ok_reply_without_its_result_is_a_protocol_error() {
    let node = node(0).await;
    let cursor = |cursor: Document| doc! { "cursor": cursor };
    let batches = [
        doc! {},
        doc! { "values": [] },
        doc! { "cursor": 1 },
        cursor(doc! { "id": 0_i64 }),
        cursor(doc! { "firstBatch": [] }),
        cursor(doc! { "id": "0", "firstBatch": [] }),
        cursor(doc! { "id": 0_i64, "firstBatch": {} }),
        cursor(doc! { "id": 0_i64, "firstBatch": [bson::Bson::Null] }),
        cursor(doc! { "id": 0_i64, "nextBatch": [] }),
        cursor(doc! { "id": 7_i64, "firstBatch": [] }),
        cursor(doc! { "id": 7_i64, "ns": "db", "firstBatch": [] }),
    ];
    let others = [doc! {}, cursor(doc! { "id": 0_i64, "firstBatch": [] })];
    let numbers = [doc! {}, doc! { "n": "3" }];
    let group = cursor(doc! { "id": 0_i64, "firstBatch": [{ "_id": 1, "n": "3" }] });
    for (op, command, replies) in [
        ("find", "find", &batches[..]),
        ("findOne", "find", &batches),
        ("aggregate", "aggregate", &batches),
        ("aggregateOut", "aggregate", &batches),
        ("countDocuments", "aggregate", &batches),
        ("countDocuments", "aggregate", &[group]),
        ("watch", "aggregate", &batches),
        ("listCollections", "listCollections", &batches),
        ("listIndexes", "listIndexes", &batches),
        ("runCommandFind", "find", &batches),
        ("distinct", "distinct", &others),
        ("listDatabases", "listDatabases", &others),
        ("count", "count", &numbers),
    ] {
        for reply in replies {
            node.script().on(command, Step::ok(reply.clone()));
        }
        let calls = replies.iter().map(|_| json!({"op": op}));
        for answer in answers(several(&node.uri(), calls)).await {
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.contains("protocol"), "{op}: {answer}");
            assert_eq!(answer["documents"], Value::Null, "{answer}");
            assert_eq!(answer["code"], Value::Null);
            assert_eq!(
                json!(each(&answer, "verdict")),
                json!(["fatal"]),
                "{answer}"
            );
            assert_eq!(
                json!(each(&answer, "stage")),
                json!(["response"]),
                "{answer}"
            );
            assert_paired(&answer);
        }
    }
}

/// Of any type, and no other number than the server's.
#[tokio::test]
async fn a_count_is_exact_or_a_protocol_error() {
    let node = node(0).await;
    let large = (1_i64 << 53) + 1;
    let counts: [(bson::Bson, Option<i64>); 9] = [
        (3.0.into(), Some(3)),
        (3e9.into(), Some(3_000_000_000)),
        (large.into(), Some(large)),
        (i64::MAX.into(), Some(i64::MAX)),
        ((-1).into(), None),
        (i64::MIN.into(), None),
        (0.5.into(), None),
        (f64::INFINITY.into(), None),
        (f64::NAN.into(), None),
    ];
    for (op, command) in [("count", "count"), ("countDocuments", "aggregate")] {
        for (n, _) in &counts {
            let reply = if op == "count" {
                doc! { "n": n }
            } else {
                doc! { "cursor": { "id": 0_i64, "firstBatch": [{ "n": n }] } }
            };
            node.script().on(command, Step::ok(reply));
        }
        let calls = counts.iter().map(|_| json!({"op": op}));
        let answers = answers(several(&node.uri(), calls)).await;
        for (answer, (_, expected)) in answers.iter().zip(&counts) {
            assert_eq!(answer["documents"], json!(expected), "{answer}");
            let error = answer["error"].as_str().unwrap_or_default();
            assert_eq!(error.contains("protocol"), expected.is_none(), "{answer}");
        }
    }
}

/// M19: what a later batch lacks ends the call as well, and is not counted as if it were the end.
#[tokio::test]
async fn a_get_more_without_its_batch_is_a_protocol_error() {
    for reply in [
        doc! {},
        doc! { "cursor": { "id": 0_i64 } },
        doc! { "cursor": { "id": 0_i64, "firstBatch": [] } },
    ] {
        let node = node(5).await;
        node.script().on("getMore", Step::ok(reply));
        let answer = answer(one(&node, json!({"op": "findBatch"}))).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains("protocol"), "{answer}");
        assert_eq!(answer["documents"], Value::Null, "{answer}");
        assert_eq!(node.seen_named("getMore").len(), 1);
        assert_paired(&answer);
    }
}

/// An explanation of an aggregate is a document of another form.
#[tokio::test]
async fn an_aggregate_that_is_explained_has_no_cursor() {
    let node = node(0).await;
    let step = Step::ok(doc! { "stages": [] });
    node.script().on("aggregate", step);
    let explain = json!({"op": "aggregate", "options": {"explain": true}});
    let answer = answer(one(&node, explain)).await;
    assert_eq!(answer["stopped"], "success", "{answer}");
    assert_eq!(answer["documents"], 0);
}
