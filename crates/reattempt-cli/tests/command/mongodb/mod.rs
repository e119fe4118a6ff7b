//! `reattempt call` over MongoDB's wire protocol: the rules of Retryable Reads, observed on the
//! wire.

mod calls;
mod cancel;
mod codes;
mod current;
mod deadline;
mod events;
mod handshake;
mod mixed;
mod network;
mod operations;
mod options;
mod overload;
mod overloaded_commands;
mod pool;
mod retarget;
mod second;
mod selection;
mod servers;
mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use reattempt_testbed::mongodb::node::{NodeBuilder, SeenCommand};
use reattempt_testbed::mongodb::{Node, ReplicaSet, Step};
use serde_json::{Value, json};

use super::{document, each, with};

/// PrimarySteppedDown.
const STEPPED_DOWN: i32 = 189;

/// HostUnreachable: retryable, and does not concern the server that returns it.
const UNREACHABLE: i32 = 6;

/// The reply of an overloaded server that did not execute the command.
fn overloaded() -> Step {
    let step = Step::code(462).label("SystemOverloadedError");
    step.label("RetryableError")
}

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Inserts documents with these numbers as `_id` into `db.c`.
fn fill(node: &Node, documents: i32) {
    let documents = (0..documents).map(|n| doc! { "_id": n, "x": n });
    node.store().insert("db", "c", documents).unwrap();
}

async fn built(builder: NodeBuilder, documents: i32) -> Node {
    let node = builder.start().await.unwrap();
    fill(&node, documents);
    node
}

/// A standalone with this many documents.
async fn node(documents: i32) -> Node {
    built(Node::builder(), documents).await
}

/// A replica set with one document.
async fn replica_set(members: usize) -> Arc<ReplicaSet> {
    let set = ReplicaSet::start(members).await.unwrap();
    fill(&set.nodes()[0], 1);
    Arc::new(set)
}

/// The connection string of one node with these options.
fn uri(node: &Node, options: &str) -> String {
    format!("{}?{options}", node.uri())
}

/// A document with these calls.
fn several(target: &str, calls: impl IntoIterator<Item = Value>) -> Value {
    document("mongodb", target, calls.into_iter().collect())
}

/// A document with one call.
fn one(node: &Node, call: Value) -> Value {
    several(&node.uri(), [call])
}

/// A document with these calls under the current specification.
fn current(target: &str, calls: impl IntoIterator<Item = Value>) -> Value {
    with(several(target, calls), "retryable_reads", json!("current"))
}

fn find() -> Value {
    json!({"op": "find"})
}

/// Makes the member with this index the primary, or none, when a `find` reaches the current
/// primary, which answers that it has stepped down.
fn steps_down_at_find(set: &Arc<ReplicaSet>, next: Option<usize>) {
    let (weak, done) = (Arc::downgrade(set), AtomicBool::new(false));
    let primary = &set.nodes()[set.primary().unwrap()];
    primary.script().handler(move |command| {
        if command.name != "find" || done.swap(true, Ordering::Relaxed) {
            return None;
        }
        weak.upgrade()?.elect(next);
        Some(Step::code(STEPPED_DOWN))
    });
}

/// Fails the first attempt of each of the next calls that send this command, in this order.
fn fail_first_attempts(node: &Node, command: &str, steps: impl IntoIterator<Item = Step>) {
    for step in steps {
        node.script().on(command, step).on(command, Step::pass());
    }
}

/// Whether a `hello` comes from a pool connection: the first one of all is the monitor's.
fn hello_of_pool(command: &SeenCommand) -> bool {
    command.name == "hello" && command.connection > 1 && command.ordinal == 0
}

/// The data commands that a node received.
fn sent(node: &Node) -> Vec<SeenCommand> {
    let seen = node.seen();
    seen.into_iter().filter(SeenCommand::is_data).collect()
}

/// A command without the fields that differ in every message.
fn logical(command: &SeenCommand) -> Document {
    let mut document = command.document.clone();
    document.remove("$clusterTime");
    document
}

/// One field of every event.
fn events(answer: &Value, field: &str) -> Vec<Value> {
    let events = answer["events"].as_array().unwrap();
    events.iter().map(|event| event[field].clone()).collect()
}

/// Asserts that every start has exactly one later end, of the same message on the same connection,
/// and that every end has a start (M31).
#[track_caller]
fn assert_paired(answer: &Value) {
    let mut open = BTreeMap::new();
    for event in answer["events"].as_array().unwrap() {
        let id = event["request_id"].as_i64().unwrap();
        let same = [
            &event["command"],
            &event["operation_id"],
            &event["connection"],
        ]
        .map(Clone::clone);
        match event["event"].as_str().unwrap() {
            "started" => assert!(
                open.insert(id, Some(same)).is_none(),
                "{id} twice: {answer}"
            ),
            "succeeded" | "failed" => {
                let begun = open.get_mut(&id).and_then(Option::take);
                assert_eq!(begun, Some(same), "{answer}");
            }
            other => panic!("{other}: {answer}"),
        }
    }
    assert!(open.values().all(Option::is_none), "no end: {answer}");
}

/// Asserts by attempts and events that the call was sent twice and succeeded.
#[track_caller]
fn assert_mended(answer: &Value) {
    assert_eq!(
        json!(each(answer, "kind")),
        json!(["initial", "retry"]),
        "{answer}"
    );
    assert_eq!(
        json!(each(answer, "verdict")),
        json!(["retry", "success"]),
        "{answer}"
    );
    assert_eq!(answer["stopped"], "success", "{answer}");
    for field in ["error", "timeout", "code", "code_name", "error_from"] {
        assert_eq!(answer[field], Value::Null, "{field}: {answer}");
    }
    assert_paired(answer);
}

/// Asserts that the call failed with this code, of the first or last of `attempts` attempts.
#[track_caller]
fn assert_failed(answer: &Value, attempts: usize, code: impl Into<Value>, from: &str) {
    assert_eq!(each(answer, "n").len(), attempts, "{answer}");
    assert_eq!(answer["code"], code.into(), "{answer}");
    assert_eq!(answer["error_from"], from, "{answer}");
    assert_eq!(answer["documents"], Value::Null, "{answer}");
    assert!(answer["error"].is_string(), "{answer}");
    assert_ne!(answer["stopped"], "success", "{answer}");
    assert_paired(answer);
}
