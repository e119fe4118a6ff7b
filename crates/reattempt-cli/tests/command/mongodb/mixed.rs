//! Many concurrent calls against a node that fails at random: every answer agrees with the node's
//! records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answers, each};

/// The node's step for a command, determined by the message number only.
fn fate(request_id: i32) -> Option<Step> {
    match request_id.wrapping_mul(0x9E37_79B9_u32 as i32) as u32 >> 29 {
        0 => Some(Step::code(UNREACHABLE)),
        1 => Some(Step::code(STEPPED_DOWN)),
        2 => Some(Step::code(50)),
        3 => Some(Step::close_before()),
        4 => Some(Step::half_reply().after(millis(5))),
        _ => None,
    }
}

fn code(step: &Step) -> Value {
    let known = [UNREACHABLE, STEPPED_DOWN, 50];
    let code = known.iter().find(|code| *step == Step::code(**code));
    code.map_or(Value::Null, |code| json!(code))
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

/// M1 M15 M22 M28 M29 M31, E1
#[tokio::test]
async fn what_the_answers_say_is_what_the_node_saw() {
    for options in ["", "maxPoolSize=1", "maxPoolSize=4"] {
        let node = node(5).await;
        node.script()
            .handler(|command| fate(command.request_id).filter(|_| command.name == "find"));
        let calls =
            (0..80).map(|n| json!({"call": n.to_string(), "op": "find", "start_delay_ms": n % 20}));
        let document = several(&uri(&node, options), calls);
        let answers = answers(with(document, "concurrency", json!("parallel"))).await;
        assert_eq!(answers.len(), 80);
        let mut told = BTreeSet::new();
        let mut shapes = BTreeMap::new();
        for answer in &answers {
            assert_paired(answer);
            let kinds = events(answer, "event")
                .into_iter()
                .zip(events(answer, "request_id"));
            let started = kinds.filter(|(kind, _)| kind == "started");
            let sent: Vec<_> = started
                .map(|(_, id)| i32::try_from(id.as_i64().unwrap()).unwrap())
                .collect();
            told.extend(sent.iter().copied());
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
                assert!(
                    !retryable(&sent[0]),
                    "it should have been retried: {answer}"
                );
            }
            *shapes.entry((attempts.len(), sent.len())).or_insert(0) += 1;
        }
        let seen: BTreeSet<_> = super::sent(&node)
            .iter()
            .map(|command| command.request_id)
            .collect();
        assert_eq!(told, seen, "{options}");
        assert!(shapes.len() >= 2, "{shapes:?}");
    }
}

/// M1 M5 M15: when the first attempt of each of many calls fails, one failure does not use up the
/// retry of another call.
#[tokio::test]
async fn calls_that_fail_together_are_mended_together() {
    for step in [Step::close_before(), Step::code(11600), Step::half_reply()] {
        let node = node(5).await;
        let met = Mutex::new(BTreeSet::new());
        node.script().handler(move |command| {
            let session = command.document.get("lsid")?.to_string();
            let first = command.name == "find" && met.lock().unwrap().insert(session);
            first.then(|| step.clone())
        });
        let document = several(&node.uri(), (0..30).map(|_| find()));
        let answers = answers(with(document, "concurrency", json!("parallel"))).await;
        assert_eq!(answers.len(), 30);
        for answer in &answers {
            assert_mended(answer);
        }
    }
}
