//! What Couchbase nodes saw, as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reattempt_clients::kv::opcode;
use reattempt_testbed::kv::{Node, SeenRequest};
use serde_json::{Value, json};

/// The operations by the names of the program's calls, and those of the bootstrap.
pub(super) const OPERATIONS: [(&str, u8); 22] = [
    ("get", opcode::GET),
    ("set", opcode::SET),
    ("add", opcode::ADD),
    ("replace", opcode::REPLACE),
    ("delete", opcode::DELETE),
    ("increment", opcode::INCREMENT),
    ("append", opcode::APPEND),
    ("touch", opcode::TOUCH),
    ("get_and_touch", opcode::GET_AND_TOUCH),
    ("get_and_lock", opcode::GET_AND_LOCK),
    ("unlock", opcode::UNLOCK),
    ("noop", opcode::NOOP),
    ("lookup_in", opcode::LOOKUP_IN),
    ("observe", opcode::OBSERVE),
    ("get_collection_id", opcode::GET_COLLECTION_ID),
    ("hello", opcode::HELLO),
    ("get_error_map", opcode::GET_ERROR_MAP),
    ("sasl_list_mechs", opcode::SASL_LIST_MECHS),
    ("sasl_auth", opcode::SASL_AUTH),
    ("sasl_step", opcode::SASL_STEP),
    ("select_bucket", opcode::SELECT_BUCKET),
    ("get_cluster_config", opcode::GET_CLUSTER_CONFIG),
];

type Seen = (usize, SeenRequest);

/// `requests` are those for data, `count` is their number; `configs` are those for the cluster
/// configuration, `all` is every request. Each list is in order of arrival at all nodes.
pub(super) fn seen(nodes: &[&Node]) -> Value {
    let of_node = |(at, node): (usize, &&Node)| {
        let seen = node.seen().into_iter();
        seen.map(move |request| (at, request))
    };
    let mut all: Vec<Seen> = nodes.iter().enumerate().flat_map(of_node).collect();
    all.sort_by_key(|(_, request)| request.arrived);
    let requests = list(&all, |request| !request.is_bootstrap());
    let configs = list(&all, |request| request.opcode == opcode::GET_CLUSTER_CONFIG);
    let of_nodes = nodes
        .iter()
        .map(|node| json!({"count": node.seen_data().len(), "connections": node.connections()}));
    json!({
        "count": requests.len(),
        "connections": nodes.iter().map(|node| node.connections()).sum::<u64>(),
        "nodes": of_nodes.collect::<Value>(),
        "polled_every_ms": polled_every(&configs),
        "requests": requests,
        "configs": configs,
        "all": list(&all, |_| true),
    })
}

/// The mean time between requests for the configuration, without that of the bootstrap, and with
/// a tolerance of 60 ms for one that is seen late.
fn polled_every(configs: &[Value]) -> Option<f64> {
    let polls = configs.get(1..).filter(|polls| polls.len() > 1)?;
    let at = |poll: &Value| poll["at_ms"].as_f64().unwrap_or(f64::NAN);
    let span = at(&polls[polls.len() - 1]) - at(&polls[0]);
    Some((span + 60.0) / (polls.len() - 1) as f64)
}

fn list(all: &[Seen], wanted: impl Fn(&SeenRequest) -> bool) -> Vec<Value> {
    let all: Vec<_> = all.iter().filter(|(_, request)| wanted(request)).collect();
    let since =
        |later: &Seen, earlier: &Seen| (later.1.arrived - earlier.1.arrived).as_secs_f64() * 1e3;
    let shown = all.iter().enumerate().map(|(n, seen)| {
        let before = n.checked_sub(1).map(|before| all[before]);
        shown(
            seen,
            since(seen, all[0]),
            before.map(|before| since(seen, before)),
        )
    });
    shown.collect()
}

/// Binary parts are base64; `gap_ms` is the time since the request before.
fn shown((node, request): &Seen, at_ms: f64, gap_ms: Option<f64>) -> Value {
    let named = OPERATIONS
        .iter()
        .find(|(_, opcode)| *opcode == request.opcode);
    let mut shown = json!({
        "node": node,
        "op": named.map(|(name, _)| name),
        "opcode": request.opcode,
        "key": String::from_utf8_lossy(&request.key),
        "collection": request.collection,
        "vbucket": request.vbucket,
        "opaque": request.opaque,
        "cas": request.cas,
        "extras": STANDARD.encode(&request.extras),
        "value": STANDARD.encode(&request.value),
        "framing": STANDARD.encode(&request.framing),
        "connection": request.connection,
        "at_ms": at_ms,
        "gap_ms": gap_ms,
    });
    if request.opcode == opcode::HELLO {
        let features = request.value.chunks_exact(2);
        let features = features.map(|two| u16::from_be_bytes([two[0], two[1]]));
        shown["features"] = features.collect();
        shown["agent"] = serde_json::from_slice(&request.key).unwrap_or_default();
    }
    shown
}
