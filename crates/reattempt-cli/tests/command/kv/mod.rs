//! `reattempt call` over Couchbase's key-value protocol: the rules of RFC 0049, 0013 and 0024,
//! observed by the nodes.

mod bootstrap;
mod calls;
mod cluster;
mod connections;
mod deadline;
mod documents;
mod error_map;
mod error_map_strategy;
mod not_my_vbucket;
mod operations;
mod poll;
mod seeds;
mod status;
mod strategy;
mod throttled;

use std::time::Duration;

use reattempt_testbed::kv::{Cluster, Node, SeenRequest, Step, opcode};
use serde_json::{Value, json};

use super::{answers, document, each, with};

/// `hello`.
const HELLO: &str = "aGVsbG8=";
const TEMPORARY_FAILURE: u16 = 0x86;
const NOT_MY_VBUCKET: u16 = 0x07;

/// Tolerance for late events on a busy machine, in milliseconds.
const ROOM: f64 = 300.0;

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A document with calls to these nodes, without a login: 4,000 SCRAM iterations take longer in a
/// debug build than most tests wait.
fn couchbase(targets: Value, calls: Value) -> Value {
    let mut document = document("kv", "", calls);
    document["target"] = targets;
    document["bucket"] = "default".into();
    document
}

/// The same with the testbed's login.
fn logged_in(document: Value) -> Value {
    let document = with(document, "username", json!("Administrator"));
    with(document, "password", json!("password"))
}

/// A document with these calls to a node.
fn several(node: &Node, calls: Value) -> Value {
    couchbase(json!(node.addr().to_string()), calls)
}

/// A document with one call to a node.
fn one(node: &Node, call: Value) -> Value {
    several(node, json!([call]))
}

/// A document with these calls to a cluster whose first node is the only seed.
fn seeded(cluster: &Cluster, calls: Value) -> Value {
    several(cluster.node(0), calls)
}

/// A non-idempotent write to the key `k`, with a generous timeout.
fn write() -> Value {
    json!({"op": "set", "key": "k", "value": HELLO, "timeout_ms": 20_000})
}

/// A read of the key `k`, with a generous timeout.
fn get() -> Value {
    json!({"op": "get", "key": "k", "timeout_ms": 20_000})
}

/// A node with these steps, and the answer of a call on an established connection, so that
/// bootstrap takes none of the call's time.
async fn set_up(
    steps: impl IntoIterator<Item = Step>,
    call: Value,
    change: impl FnOnce(Value) -> Value,
) -> (Node, Value) {
    let first = std::iter::once(Step::execute());
    let node = Node::scripted(first.chain(steps)).await.unwrap();
    let document = change(several(&node, json!([{"op": "noop"}, call])));
    let mut answers = answers(document).await;
    assert_eq!(answers[0]["status"], 0, "{answers:?}");
    (node, answers.remove(1))
}

/// These delays, then null.
fn delays(delays: &[u64]) -> Vec<Value> {
    let none = std::iter::once(Value::Null);
    delays
        .iter()
        .map(|delay| json!(delay))
        .chain(none)
        .collect()
}

/// The requests of one operation, in order of arrival.
fn seen(node: &Node, opcode: u8) -> Vec<SeenRequest> {
    let mut seen = node.seen();
    seen.retain(|request| request.opcode == opcode);
    seen
}

/// How often the node's configuration was fetched.
fn configs(node: &Node) -> usize {
    seen(node, opcode::GET_CLUSTER_CONFIG).len()
}

/// Asserts that the whole answer reports one final failure.
#[track_caller]
fn assert_final(answer: &Value, status: u16) {
    assert_eq!(answer["status"], status, "{answer}");
    assert_eq!(answer["stopped"], "fatal", "{answer}");
    assert_eq!(answer["timeout"], Value::Null, "{answer}");
    assert_eq!(answer["reasons"], json!([]), "{answer}");
    assert_eq!(each(answer, "verdict"), ["fatal"], "{answer}");
    assert_eq!(each(answer, "delay_ms"), [Value::Null], "{answer}");
}
