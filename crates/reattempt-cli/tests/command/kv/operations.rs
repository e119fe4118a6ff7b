//! The operations of the contract, on the wire.

use reattempt_testbed::kv::{Node, Step, vbucket_of};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, with};

/// The operation, key, extras, value and CAS on the wire, of a call with the key `k`, the value
/// `hello` and the CAS 7.
type Wire = (u8, &'static str, Vec<u8>, Vec<u8>, u64);

fn wire(op: &str) -> Wire {
    let hello = b"hello".to_vec();
    let four = vec![0; 4];
    match op {
        "get" => (0x00, "k", vec![], vec![], 7),
        "set" => (0x01, "k", vec![0; 8], hello, 7),
        "add" => (0x02, "k", vec![0; 8], hello, 7),
        "replace" => (0x03, "k", vec![0; 8], hello, 7),
        "delete" => (0x04, "k", vec![], vec![], 7),
        "increment" => {
            let one = 1u64.to_be_bytes();
            (0x05, "k", [&one[..], &one, &four].concat(), vec![], 7)
        }
        "append" => (0x0e, "k", vec![], hello, 7),
        "touch" => (0x1c, "k", four, vec![], 7),
        "get_and_touch" => (0x1d, "k", four, vec![], 7),
        "get_and_lock" => (0x94, "k", four, vec![], 7),
        "unlock" => (0x95, "k", vec![], vec![], 7),
        "noop" => (0x0a, "", vec![], vec![], 7),
        "lookup_in" => (0xd0, "k", vec![], four, 7),
        "get_collection_id" => (0xbb, "", vec![], b"k".to_vec(), 7),
        other => panic!("{other}"),
    }
}

const ALL: [&str; 14] = [
    "get",
    "set",
    "add",
    "replace",
    "delete",
    "append",
    "increment",
    "touch",
    "get_and_touch",
    "get_and_lock",
    "unlock",
    "noop",
    "lookup_in",
    "get_collection_id",
];

/// With both kinds of bootstrap.
#[tokio::test]
async fn every_operation_has_its_frame() {
    for bootstrap in ["couchbase", "memcached"] {
        let node = Node::scripted(vec![Step::status(0); ALL.len()])
            .await
            .unwrap();
        let call = |op| json!({"op": op, "key": "k", "value": HELLO, "cas": 7});
        let calls: Vec<_> = ALL.into_iter().map(call).collect();
        let answers = answers(with(
            several(&node, json!(calls)),
            "bootstrap",
            json!(bootstrap),
        ))
        .await;
        assert!(
            answers.iter().all(|answer| answer["status"] == 0),
            "{answers:?}"
        );
        let seen = node.seen_data();
        assert_eq!(seen.len(), ALL.len());
        for (seen, op) in seen.iter().zip(ALL) {
            let (opcode, key, extras, value, cas) = wire(op);
            assert_eq!(seen.opcode, opcode, "{op}");
            assert_eq!(seen.key, key, "{op}");
            assert_eq!(seen.extras, extras, "{op}");
            assert_eq!(seen.value, value, "{op}");
            assert_eq!(seen.cas, cas, "{op}");
            let vbucket = if key.is_empty() || bootstrap == "memcached" {
                0
            } else {
                vbucket_of(b"k", 64)
            };
            assert_eq!(seen.vbucket, vbucket, "{op}");
            let collection = (bootstrap == "couchbase" && !key.is_empty()).then_some(0);
            assert_eq!(
                seen.collection, collection,
                "{op}: of the default collection"
            );
            assert!(seen.framing.is_empty());
        }
    }
}

/// The only operation with its key in the value, together with its vbucket.
#[tokio::test]
async fn observe_names_its_key_in_the_value() {
    let node = Node::start().await.unwrap();
    answer(one(&node, json!({"op": "observe", "key": "k"}))).await;
    let seen = &node.seen_data()[0];
    let vbucket = vbucket_of(b"k", 64).to_be_bytes();
    assert_eq!(seen.opcode, 0x92);
    assert_eq!(seen.key, "k", "the first key of the value");
    assert_eq!(seen.value, [&vbucket[..], &[0, 2, 0], b"k"].concat());
}

/// CRC-32, as in every client.
#[tokio::test]
async fn the_key_decides_the_vbucket() {
    for (vbuckets, of_foo) in [(1024, 115), (64, 115 % 64), (1, 0)] {
        let node = Node::builder().vbuckets(vbuckets).start().await.unwrap();
        answer(one(&node, json!({"op": "get", "key": "foo"}))).await;
        assert_eq!(node.seen_data()[0].vbucket, of_foo);
    }
}

/// The result of each operation on a document, in sequence.
#[tokio::test]
async fn the_answers_are_the_nodes() {
    let node = Node::start().await.unwrap();
    let calls = json!([
        {"op": "add", "key": "k", "value": HELLO},
        {"op": "add", "key": "k", "value": HELLO},
        {"op": "append", "key": "k", "value": HELLO},
        {"op": "get", "key": "k"},
        {"op": "replace", "key": "k", "value": HELLO},
        {"op": "replace", "key": "none", "value": HELLO},
        {"op": "set", "key": "k", "value": HELLO, "cas": 1},
        {"op": "touch", "key": "k"},
        {"op": "get_and_touch", "key": "k"},
        {"op": "lookup_in", "key": "k"},
        {"op": "observe", "key": "k"},
        {"op": "delete", "key": "k"},
        {"op": "delete", "key": "k"},
        {"op": "increment", "key": "n"},
        {"op": "increment", "key": "n"},
        {"op": "noop"},
        {"op": "get_collection_id", "key": "_default._default"},
    ]);
    let answers = answers(several(&node, calls)).await;
    let status: Vec<_> = answers[..16]
        .iter()
        .map(|answer| answer["status"].clone())
        .collect();
    assert_eq!(status, [0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(answers[3]["value"], "aGVsbG9oZWxsbw==");
    assert_eq!(answers[8]["value"], HELLO);
    assert_eq!(
        answers[9]["value"], "AAAAAAAFaGVsbG8=",
        "status, length, document"
    );
    assert_eq!(answers[14]["value"], "AAAAAAAAAAI=", "a counter of 64 bits");
    assert_eq!(answers[15]["value"], "");
    assert!(answers[0]["cas"].as_u64() < answers[2]["cas"].as_u64());
    assert_eq!(answers[1]["stopped"], "fatal");
    assert!(answers.iter().all(|answer| each(answer, "n") == [1]));
}

/// A CAS has 64 bits.
#[tokio::test]
async fn a_cas_is_carried_to_the_bit() {
    let node = Node::scripted([Step::status(0)]).await.unwrap();
    let cas = u64::MAX - 2;
    answer(one(&node, json!({"op": "unlock", "key": "k", "cas": cas}))).await;
    assert_eq!(node.seen_data()[0].cas, cas);
}

/// C35: with the CAS of the lock.
#[tokio::test]
async fn a_lock_is_held_against_a_write_until_it_is_unlocked() {
    let node = Node::start().await.unwrap();
    node.store().put("k", "v");
    let lock = answer(one(&node, json!({"op": "get_and_lock", "key": "k"}))).await;
    assert_eq!(
        (&lock["status"], &lock["value"]),
        (&json!(0), &json!("dg=="))
    );
    let calls = json!([
        {"op": "set", "key": "k", "value": HELLO, "timeout_ms": 200},
        {"op": "unlock", "key": "k", "cas": 1},
        {"op": "unlock", "key": "k", "cas": lock["cas"]},
        {"op": "set", "key": "k", "value": HELLO, "timeout_ms": 20_000},
    ]);
    let answers = answers(several(&node, calls)).await;
    assert_eq!(answers[0]["stopped"], "deadline", "{answers:?}");
    assert_eq!(answers[0]["reasons"], json!(["KV_LOCKED"]));
    assert_eq!(answers[0]["timeout"], "unambiguous");
    assert_final(&answers[1], 0x09);
    assert_eq!(
        (&answers[2]["status"], &answers[3]["status"]),
        (&json!(0), &json!(0))
    );
}

/// The call overrides the list.
#[tokio::test]
async fn whether_an_operation_is_idempotent_is_the_lists_or_the_calls() {
    let reads = ["get", "noop", "observe", "lookup_in", "get_collection_id"];
    let writes = [
        "set",
        "add",
        "replace",
        "delete",
        "append",
        "increment",
        "touch",
        "get_and_touch",
        "get_and_lock",
        "unlock",
    ];
    let all = reads
        .map(|op| (op, true))
        .into_iter()
        .chain(writes.map(|op| (op, false)));
    for (op, listed) in all {
        for said in [None, Some(!listed)] {
            let idempotent = said.unwrap_or(listed);
            let node = Node::scripted([Step::close_before(), Step::status(0)])
                .await
                .unwrap();
            let call = json!({"op": op, "key": "k", "value": HELLO, "cas": 7, "idempotent": said, "timeout_ms": 20_000});
            let answer = answer(one(&node, call)).await;
            let (stopped, attempts) = if idempotent {
                ("success", 2)
            } else {
                ("not_idempotent", 1)
            };
            assert_eq!(answer["stopped"], stopped, "{op} {said:?}: {answer}");
            assert_eq!(node.seen_data().len(), attempts, "{op} {said:?}");
            assert_eq!(answer["reasons"], json!(["SOCKET_CLOSED_WHILE_IN_FLIGHT"]));
            assert_eq!(
                answer["status"],
                if idempotent { json!(0) } else { Value::Null }
            );
        }
    }
}
