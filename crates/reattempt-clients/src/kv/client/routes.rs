//! Which node a request goes to, and the clients of the nodes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use reattempt_couchbase::kv::Opcode;

use super::error::ClientError;
use super::forwarding::{Asked, Forwarding};
use super::node::{NodeClient, NodeFuture};
use super::options::ClientOptions;
use super::request::KvRequest;
use super::state::Outcome;
use crate::kv::VbucketMap;
use crate::lock::lock;

/// Returns the current map. It is called for every request, and again while one waits for its node:
/// return a value that is kept, and wait for nothing.
pub type MapSource = Arc<dyn Fn() -> Option<Arc<VbucketMap>> + Send + Sync>;

/// A request on its way to a node, or why there is none.
pub(super) type Route = Result<Sending, ClientError>;

/// A request on its way to a node.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) response: NodeFuture,
    /// Must see the response.
    pub(super) asked: Option<Asked>,
}

impl From<NodeFuture> for Sending {
    fn from(response: NodeFuture) -> Self {
        Self {
            response,
            asked: None,
        }
    }
}

impl Sending {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(Pin::new(&mut self.response).poll(cx));
        if let (Ok(answer), Some(asked)) = (&outcome, &self.asked) {
            asked.answered(answer);
        }
        Poll::Ready(outcome)
    }
}

/// The seeds, the map and the clients of all nodes, shared by the clones of a client.
pub(super) struct Routes {
    pub(super) options: Arc<ClientOptions>,
    pub(super) seeds: Vec<Arc<str>>,
    pub(super) map: MapSource,
    nodes: Mutex<Nodes>,
    turn: AtomicUsize,
    forwarding: Forwarding,
}

#[derive(Default)]
pub(super) struct Nodes {
    clients: HashMap<Arc<str>, NodeClient>,
    /// The newest revision of a map with which they were compared.
    compared: Option<(i64, i64)>,
}

impl Nodes {
    pub(super) fn get(&self, address: &str) -> Option<&NodeClient> {
        self.clients.get(address)
    }

    /// Removes those that a newer map no longer has: nodes that left, and addresses that were asked
    /// for a configuration.
    fn keep_those_of(&mut self, map: &VbucketMap, seeds: &[Arc<str>]) {
        let revision = Some((map.rev_epoch, map.rev));
        if self.compared >= revision {
            return;
        }
        self.compared = revision;
        let names: HashSet<&str> = map.nodes.iter().map(|node| &**node).collect();
        self.clients.retain(|known, node| {
            let (is_node, is_seed) = (names.contains(&**known), seeds.contains(known));
            match is_seed {
                _ if is_node => {}
                true => node.leave_for_now(),
                false => node.leave(),
            }
            is_node || is_seed
        });
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl Routes {
    pub(super) fn new(options: Arc<ClientOptions>, seeds: Vec<Arc<str>>, map: MapSource) -> Self {
        Self {
            options,
            seeds,
            map,
            nodes: Mutex::default(),
            turn: AtomicUsize::new(0),
            forwarding: Forwarding::default(),
        }
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// A different number each time, so that a dead node is not asked every time.
    pub(super) fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// The client of a node. With a newer map than before, the clients of nodes that left are
    /// removed.
    pub(super) fn node(&self, address: &str, map: Option<&VbucketMap>) -> NodeClient {
        let mut nodes = self.nodes();
        if let Some(map) = map {
            nodes.keep_those_of(map, &self.seeds);
        }
        if let Some(node) = nodes.get(address) {
            return node.clone();
        }
        let address: Arc<str> = address.into();
        let node = NodeClient::shared(address.clone(), self.options.clone());
        let is_older = |map: &VbucketMap| Some((map.rev_epoch, map.rev)) < nodes.compared;
        if map.is_some_and(is_older) && !self.seeds.contains(&address) {
            // A newer map was read meanwhile, and has not asked for this node so far.
            node.leave();
            return node;
        }
        nodes.clients.insert(address, node.clone());
        node
    }

    /// Removes the clients of nodes that left by the current map.
    pub(super) fn compare(&self) {
        if let Some(map) = (self.map)() {
            self.nodes().keep_those_of(&map, &self.seeds);
        }
    }

    pub(super) fn seed(&self, index: usize) -> Option<NodeClient> {
        let seed = self.seeds.get(index.checked_rem(self.seeds.len())?)?;
        Some(self.node(seed, None))
    }

    /// Sends a request to the node that the map names; `None` without a map.
    pub(super) fn route(&self, request: &mut KvRequest) -> Option<Route> {
        let map = (self.map)()?;
        let by_key = || request.is_keyed().then(|| map.vbucket_of(&request.key));
        let Some(vbucket) = request.vbucket.or_else(by_key) else {
            let Some(address) = map.any_node(self.turn()) else {
                return Some(Err(no_node(None, "the map has no nodes")));
            };
            let node = self.node(address, Some(&map));
            return Some(Ok(node.start(request).into()));
        };
        let (address, asked) = self.forwarding.node(&map, vbucket);
        let Some(address) = address else {
            let why = "the map names no owner of the vbucket that can be reached";
            return Some(Err(no_node(Some(vbucket), why)));
        };
        request.vbucket = Some(vbucket);
        let node = self.node(address, Some(&map));
        let response = node.start(request);
        // An active node refuses these, which says nothing about where the vbucket is.
        let of_replica = matches!(request.opcode, Opcode::GET_REPLICA | Opcode::GET_EX_REPLICA);
        let asked = asked.filter(|_| !of_replica);
        Some(Ok(Sending { response, asked }))
    }
}

pub(super) fn no_node(vbucket: Option<u16>, why: &'static str) -> ClientError {
    ClientError::NoNode { vbucket, why }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn map(rev: i64, nodes: &[&str]) -> VbucketMap {
        VbucketMap {
            rev,
            nodes: nodes.iter().map(ToString::to_string).collect(),
            ..VbucketMap::default()
        }
    }

    /// An active node refuses a replica read, and keeps the vbucket.
    #[tokio::test]
    async fn the_refusal_of_a_replica_read_moves_no_other_request() {
        let map = VbucketMap {
            vbuckets: vec![vec![0]],
            forward: vec![vec![1]],
            ..map(1, &["a:1", "b:1"])
        };
        let current = Arc::new(map);
        let options = Arc::new(ClientOptions::memcached());
        let map = Arc::new(move || Some(Arc::clone(&current)));
        let routes = Routes::new(options, Vec::new(), map);
        for (opcode, asks) in [
            (Opcode::GET, true),
            (Opcode::GET_REPLICA, false),
            (Opcode::GET_EX_REPLICA, false),
        ] {
            let mut request = KvRequest::new(opcode, "key");
            let sending = routes.route(&mut request).expect("a map");
            assert_eq!(sending.expect("a node").asked.is_some(), asks, "{opcode:?}");
        }
    }

    /// It may have found its node just before another request read a newer map.
    #[tokio::test]
    async fn a_request_that_begins_late_waits_for_no_node_that_left() {
        let options = Arc::new(ClientOptions::memcached().max_in_flight(1));
        let routes = Routes::new(options, Vec::new(), Arc::new(|| None));
        let node = routes.node("127.0.0.1:1", Some(&map(1, &["127.0.0.1:1"])));
        let has_the_permit = node.start(&KvRequest::get("k"));
        drop(routes.node("b:1", Some(&map(2, &["b:1"]))));
        let late = tokio::time::timeout(Duration::from_secs(10), node.start(&KvRequest::get("k")));
        let error = late.await.expect("no wait").expect_err("not sent");
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        drop(has_the_permit);
    }

    /// It may have read its map just before another request read a newer one.
    #[tokio::test]
    async fn a_request_that_begins_late_dials_no_node_that_left() {
        let options = Arc::new(ClientOptions::memcached());
        let seeds = vec!["127.0.0.1:2".into()];
        let routes = Routes::new(options, seeds, Arc::new(|| None));
        let (left, seed) = ("127.0.0.1:1", "127.0.0.1:2");
        let clients = [left, seed].map(|node| routes.node(node, Some(&map(1, &[left, seed]))));
        drop(routes.node("b:1", Some(&map(2, &["b:1"]))));
        let late = clients.map(|node| node.start(&KvRequest::get("k")));
        let [left, seed] = late.map(|late| tokio::time::timeout(Duration::from_secs(10), late));
        let error = left.await.expect("no wait").expect_err("not sent");
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        let error = seed.await.expect("an end").expect_err("refused");
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    }

    /// It may have read its map before another request read a newer one, and found no client.
    #[tokio::test]
    async fn an_older_map_makes_no_client_of_a_node_that_left() {
        let options = Arc::new(ClientOptions::memcached());
        let routes = Routes::new(options, vec!["seed:1".into()], Arc::new(|| None));
        let (left, old) = ("127.0.0.1:1", map(1, &["127.0.0.1:1", "seed:1"]));
        drop(routes.node("b:1", Some(&map(2, &["b:1"]))));
        let late = routes.node(left, Some(&old)).start(&KvRequest::get("k"));
        let late = tokio::time::timeout(Duration::from_secs(10), late);
        let error = late.await.expect("no wait").expect_err("not sent");
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        drop(routes.node("seed:1", Some(&old)));
        let known = [left, "seed:1"].map(|node| routes.nodes().get(node).is_some());
        assert_eq!(known, [false, true]);
    }

    /// A request may have read the map just before it was replaced.
    #[tokio::test]
    async fn only_a_newer_map_removes_nodes() {
        let options = Arc::new(ClientOptions::memcached());
        let routes = Routes::new(options, vec!["seed:1".into()], Arc::new(|| None));
        let (old, new) = (map(1, &["a:1"]), map(2, &["a:1", "b:1"]));
        for (address, map) in [
            ("seed:1", &old),
            ("a:1", &old),
            ("b:1", &new),
            ("a:1", &old),
        ] {
            drop(routes.node(address, Some(map)));
        }
        assert!(routes.nodes().get("b:1").is_some());
        drop(routes.node("b:1", Some(&map(3, &["b:1"]))));
        let known = ["seed:1", "a:1", "b:1"].map(|node| routes.nodes().get(node).is_some());
        assert_eq!(known, [true, false, true]);
    }
}
