//! The client of a cluster: the key determines the vbucket, the vbucket the node.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tower_service::Service;

use crate::kv::{VbucketMap, vbucket_of};

use super::error::ClientError;
use super::forwarding::{Asked, Forwarding};
use super::limit::Limit;
use super::node::{NodeClient, NodeFuture};
use super::options::{Bootstrap, ClientOptions};
use super::request::KvRequest;
use super::response::KvResponse;
use super::seeding::Seeding;
use super::state::Outcome;

/// Returns the current map; called for every request.
pub type MapSource = Arc<dyn Fn() -> Option<Arc<VbucketMap>> + Send + Sync>;

/// A tower service for a cluster, with one connection per node. Clones share the connections.
///
/// Without a map, a Couchbase client connects to its seeds in turn, and to the next one also when a
/// seed is slow, until a configuration arrives (through [`ClientOptions::on_config`]) and the
/// source has a map. When no seed has one, the request goes to a seed that accepted the connection.
/// A memcached client distributes the keys over the seeds.
///
/// A vbucket is routed by the current map. After its node has refused it (0x07), it is routed by
/// the fast-forward map, if there is one, until there is a new revision.
#[derive(Clone, Debug)]
pub struct RoutedClient {
    shared: Arc<Shared>,
    limit: Limit,
}

pub(super) struct Shared {
    options: Arc<ClientOptions>,
    seeds: Vec<Arc<str>>,
    map: MapSource,
    nodes: Mutex<HashMap<Arc<str>, NodeClient>>,
    turn: AtomicUsize,
    forwarding: Forwarding,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl RoutedClient {
    /// Creates a client of the cluster behind `seeds` (`host:port` each) that routes by the result
    /// of `map`.
    pub fn new(
        seeds: impl IntoIterator<Item = impl Into<Arc<str>>>,
        options: ClientOptions,
        map: impl Fn() -> Option<Arc<VbucketMap>> + Send + Sync + 'static,
    ) -> Self {
        let limit = Limit::new(options.max_in_flight);
        let shared = Shared {
            options: Arc::new(options),
            seeds: seeds.into_iter().map(Into::into).collect(),
            map: Arc::new(map),
            nodes: Mutex::default(),
            turn: AtomicUsize::new(0),
            forwarding: Forwarding::default(),
        };
        Self {
            shared: Arc::new(shared),
            limit,
        }
    }

    /// The client of one node, `host:port`, for requests that must not be routed, such as fetching
    /// a configuration.
    pub fn node(&self, address: &str) -> NodeClient {
        self.shared.node(address, None)
    }

    /// The nodes of the current map, or the seeds without a map.
    pub fn addresses(&self) -> Vec<String> {
        match (self.shared.map)() {
            Some(map) => map.addresses().map(str::to_owned).collect(),
            None => self
                .shared
                .seeds
                .iter()
                .map(|seed| seed.as_ref().to_owned())
                .collect(),
        }
    }

    /// The node that owns a key by the current map.
    pub fn node_of(&self, key: &[u8]) -> Option<String> {
        let map = (self.shared.map)()?;
        map.node_of(map.vbucket_of(key)).map(str::to_owned)
    }

    /// The error map of a node, if it was connected before.
    pub fn error_map_json(&self, address: &str) -> Option<Bytes> {
        self.shared.nodes().get(address)?.error_map_json()
    }

    /// Closes a connection by node and number, see [`NodeClient::disconnect`].
    pub fn disconnect(&self, address: &str, connection: u64) {
        if let Some(node) = self.shared.nodes().get(address) {
            node.disconnect(connection);
        }
    }
}

impl Shared {
    fn nodes(&self) -> MutexGuard<'_, HashMap<Arc<str>, NodeClient>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client of a node. Creating a new one removes nodes that left the cluster.
    fn node(&self, address: &str, map: Option<&VbucketMap>) -> NodeClient {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.get(address) {
            return node.clone();
        }
        if let Some(map) = map {
            nodes.retain(|known, _| {
                self.seeds.contains(known) || map.nodes.iter().any(|node| **node == **known)
            });
        }
        let address: Arc<str> = address.into();
        let node = NodeClient::shared(address.clone(), self.options.clone());
        nodes.insert(address, node.clone());
        node
    }

    /// Sends a request to the node that the map names; `None` without a map.
    pub(super) fn route(
        &self,
        request: &mut KvRequest,
        permit: &mut Option<OwnedSemaphorePermit>,
    ) -> Option<State> {
        let map = (self.map)()?;
        if !request.is_keyed() {
            // Any node is suitable; a different one each time, so that a dead node is not asked
            // every time.
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let Some(address) = map.any_node(turn) else {
                return Some(State::failed(no_node(None, "the map has no nodes")));
            };
            let node = self.node(address, Some(&map));
            return Some(State::Sending {
                sending: node.start(request.clone(), permit.take()),
                asked: None,
            });
        }
        let vbucket = request
            .vbucket
            .unwrap_or_else(|| map.vbucket_of(&request.key));
        let (address, asked) = self.forwarding.node(&map, vbucket);
        let Some(address) = address else {
            let why = "the map names no owner of the vbucket";
            return Some(State::failed(no_node(Some(vbucket), why)));
        };
        request.vbucket = Some(vbucket);
        let node = self.node(address, Some(&map));
        Some(State::Sending {
            sending: node.start(request.clone(), permit.take()),
            asked,
        })
    }

    pub(super) fn seeds(&self) -> usize {
        self.seeds.len()
    }

    pub(super) fn seed(&self, index: usize) -> Option<NodeClient> {
        let seed = self.seeds.get(index.checked_rem(self.seeds.len())?)?;
        Some(self.node(seed, None))
    }
}

pub(super) fn no_node(vbucket: Option<u16>, why: &'static str) -> ClientError {
    ClientError::NoNode { vbucket, why }
}

impl Service<KvRequest> for RoutedClient {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = RoutedFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.limit.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, mut request: KvRequest) -> RoutedFuture {
        let mut permit = Some(self.limit.take());
        if let Some(state) = self.shared.route(&mut request, &mut permit) {
            return RoutedFuture { state };
        }
        let shared = &self.shared;
        let state = if shared.options.bootstrap == Bootstrap::Memcached {
            let by_key = vbucket_of(&request.key, shared.seeds());
            match shared.seed(usize::from(by_key)) {
                Some(node) => State::sending(node.start(request, permit)),
                None => State::failed(no_node(None, "there is no seed")),
            }
        } else {
            let first = shared.turn.fetch_add(1, Ordering::Relaxed);
            State::Seeding(Seeding::begin(shared, first, request, permit))
        };
        RoutedFuture { state }
    }
}

/// A request to the node that owns its key.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct RoutedFuture {
    state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Seeding(Seeding),
    Sending {
        sending: NodeFuture,
        asked: Option<Asked>,
    },
    Failed(Option<ClientError>),
}

impl State {
    pub(super) const fn failed(error: ClientError) -> Self {
        Self::Failed(Some(error))
    }

    pub(super) const fn sending(sending: NodeFuture) -> Self {
        Self::Sending {
            sending,
            asked: None,
        }
    }
}

impl RoutedFuture {
    /// The node of the request, `host:port`, as soon as it is known.
    pub fn address(&self) -> Option<&str> {
        match &self.state {
            State::Sending { sending, .. } => Some(sending.address()),
            State::Seeding(_) | State::Failed(_) => None,
        }
    }

    /// Whether the request still waits for a connection, so that no byte of it was sent.
    pub fn is_dialling(&self) -> bool {
        match &self.state {
            State::Seeding(_) | State::Failed(_) => true,
            State::Sending { sending, .. } => sending.is_dialling(),
        }
    }
}

impl Future for RoutedFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let next = match &mut self.state {
                State::Seeding(seeding) => ready!(seeding.poll(cx)),
                State::Sending { sending, asked } => {
                    let outcome = ready!(Pin::new(sending).poll(cx));
                    if let (Ok(answer), Some(asked)) = (&outcome, asked) {
                        asked.answered(answer);
                    }
                    return Poll::Ready(outcome);
                }
                State::Failed(error) => {
                    return Poll::Ready(Err(error.take().expect("polled after completion")));
                }
            };
            self.state = next;
        }
    }
}
