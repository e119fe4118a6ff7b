//! What Couchbase nodes saw, as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reattempt_couchbase::kv::Opcode;
use reattempt_testbed::kv::{Node, SeenRequest};
use serde_json::{Value, json};

/// The name of an operation in the program's calls, else that of the protocol.
fn name(opcode: Opcode) -> Option<String> {
    match opcode {
        Opcode::SUBDOC_MULTI_LOOKUP => Some("lookup_in".into()),
        Opcode::COLLECTIONS_GET_ID => Some("get_collection_id".into()),
        _ => opcode.name().map(str::to_lowercase),
    }
}

pub(super) fn of_name(word: &str) -> Option<Opcode> {
    let mut all = (0..=u8::MAX).map(Opcode);
    all.find(|opcode| name(*opcode).as_deref() == Some(word))
}

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
    let configs = list(&all, |request| request.opcode == Opcode::GET_CLUSTER_CONFIG);
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
    let mut shown = json!({
        "node": node,
        "op": name(request.opcode),
        "opcode": request.opcode.0,
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
    if request.opcode == Opcode::HELLO {
        let features = request.value.chunks_exact(2);
        let features = features.map(|two| u16::from_be_bytes([two[0], two[1]]));
        shown["features"] = features.collect();
        shown["agent"] = serde_json::from_slice(&request.key).unwrap_or_default();
    }
    shown
}
