//! Many concurrent calls to a MongoDB server that fails at random: every answer agrees with the
//! server's records. The other rules are cases in `tests/cases/mongodb`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bson::doc;
use reattempt_testbed::mongodb::{Node, Step};
use serde_json::{Value, json};

use super::{answers, document, each, with};

/// The codes of the server's errors; the last one is not retryable.
const CODES: [i32; 3] = [6, 189, 50];

/// The server's step for a command, determined by the message number only.
fn fate(request_id: i32) -> Option<Step> {
    match request_id.wrapping_mul(0x9E37_79B9_u32 as i32) as u32 >> 29 {
        n @ 0..=2 => Some(Step::code(CODES[n as usize])),
        3 => Some(Step::close_before()),
        4 => Some(Step::half_reply().after(Duration::from_millis(5))),
        _ => None,
    }
}

fn code(step: &Step) -> Value {
    let code = CODES.iter().find(|code| *step == Step::code(**code));
    json!(code)
}

/// The expected result of a call whose commands had these numbers; the flag tells whether its last
/// attempt was sent.
fn expected(sent: &[i32], last_was_sent: bool) -> Value {
    let fates: Vec<_> = sent.iter().map(|id| fate(*id)).collect();
    match fates.as_slice() {
        [] => json!({"documents": null, "code": null, "error_from": "first"}),
        [.., None] if last_was_sent => json!({"documents": 5, "code": null, "error_from": null}),
        [Some(first)] if !last_was_sent => {
            json!({"documents": null, "code": code(first), "error_from": "first"})
        }
        [.., Some(last)] => json!({"documents": null, "code": code(last), "error_from": null}),
        other => panic!("an attempt after an answer: {other:?}"),
    }
}

/// The numbers of the commands that a call sent, each with its start and its end (M31).
fn commands(answer: &Value) -> Vec<i32> {
    let pairs = answer["events"].as_array().unwrap().chunks(2);
    let sent = pairs.map(|pair| {
        assert_eq!(pair[0]["event"], "started", "{answer}");
        assert_ne!(pair[1]["event"], "started", "{answer}");
        for field in ["command", "request_id", "operation_id", "connection"] {
            assert_eq!(pair[0][field], pair[1][field], "{answer}");
        }
        i32::try_from(pair[0]["request_id"].as_i64().unwrap()).unwrap()
    });
    sent.collect()
}

/// M1 M15 M22 M28 M29 M31, E1
#[tokio::test]
async fn what_the_answers_say_is_what_the_node_saw() {
    for options in ["", "maxPoolSize=1", "maxPoolSize=4"] {
        let node = Node::start().await.unwrap();
        let documents = (0..5).map(|n| doc! { "_id": n });
        node.store().insert("db", "c", documents).unwrap();
        node.script()
            .handler(|command| fate(command.request_id).filter(|_| command.name == "find"));
        let calls =
            (0..80).map(|n| json!({"call": n.to_string(), "op": "find", "start_delay_ms": n % 20}));
        let target = format!("{}?{options}", node.uri());
        let document = document("mongodb", &target, calls.collect());
        let answers = answers(with(document, "concurrency", json!("parallel"))).await;
        assert_eq!(answers.len(), 80);
        let mut reported = BTreeSet::new();
        let mut shapes = BTreeMap::new();
        for answer in &answers {
            let sent = commands(answer);
            for id in &sent {
                assert!(reported.insert(*id), "{id} of two calls: {answer}");
            }
            let attempts = each(answer, "verdict");
            assert!(
                (1..=2).contains(&attempts.len()) && sent.len() <= attempts.len(),
                "{answer}"
            );
            assert!(attempts.len() == 1 || attempts[0] == "retry", "{answer}");
            let last_was_sent = each(answer, "stage").last() != Some(&json!("dispatch"));
            let mut expected = expected(&sent, last_was_sent);
            if !answer["error_from"].is_null() && expected["error_from"].is_null() {
                let from = if attempts.len() == 1 { "first" } else { "last" };
                expected["error_from"] = json!(from);
            }
            for field in ["documents", "code", "error_from"] {
                assert_eq!(answer[field], expected[field], "{field}: {answer}");
            }
            let retryable = |id: &i32| fate(*id).is_some_and(|step| step != Step::code(50));
            if attempts.len() == 1 && !sent.is_empty() {
                assert!(!retryable(&sent[0]), "not retried: {answer}");
            }
            *shapes.entry((attempts.len(), sent.len())).or_insert(0) += 1;
        }
        let seen = node.seen_named("find");
        let seen: BTreeSet<_> = seen.iter().map(|command| command.request_id).collect();
        assert_eq!(reported, seen, "{options}");
        assert!(shapes.len() >= 2, "{shapes:?}");
    }
}
