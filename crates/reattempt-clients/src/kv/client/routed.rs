//! The client of a cluster: the key determines the vbucket, the vbucket the node.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use reattempt_couchbase::Address;
use tower_service::Service;

use crate::kv::{VbucketMap, vbucket_of};

use super::error::ClientError;
use super::node::NodeClient;
use super::options::{Bootstrap, ClientOptions};
use super::request::KvRequest;
use super::response::KvResponse;
use super::routes::{Route, Routes, Sending, no_node};
use super::seeding::Seeding;
use super::state::Outcome;
use super::watching::Watching;

/// The text by which a map names this node: an IPv6 address may be written in many ways.
fn named(address: Arc<str>) -> Arc<str> {
    let parsed = address.parse::<Address>();
    parsed.map_or(address, |node| node.to_string().into())
}

/// A tower service for a cluster, with one connection per node. Clones share the connections.
///
/// Without a map, a Couchbase client connects to its seeds in turn, and to the next one also when a
/// seed is slow, until a configuration arrives (through [`ClientOptions::on_config`]) and the
/// source has a map. When no seed has one, the request goes to a seed that accepted the connection,
/// or fails with the error of one, while others may still be silent. A memcached client distributes
/// the keys over the seeds.
///
/// A vbucket is routed by the current map. After its node has refused it (0x07), it is routed by
/// the fast-forward map, if there is one, until there is a new revision.
///
/// It is always ready. A request to a node with [`ClientOptions::max_in_flight`] requests without a
/// response waits in its future, where a deadline ends the wait, and delays no request to another
/// node. So an unbounded number of requests may wait: bound it above.
///
/// It routes by the active copies only: a replica read needs its vbucket, and the client of the
/// [`node`](Self::node) with the replica.
#[derive(Clone, Debug)]
pub struct RoutedClient {
    routes: Arc<Routes>,
}

impl RoutedClient {
    /// Creates a client of the cluster behind `seeds` (`host:port` each) that routes by the result
    /// of `map`.
    pub fn new(
        seeds: impl IntoIterator<Item = impl Into<Arc<str>>>,
        options: ClientOptions,
        map: impl Fn() -> Option<Arc<VbucketMap>> + Send + Sync + 'static,
    ) -> Self {
        let seeds = seeds.into_iter().map(|seed| named(seed.into())).collect();
        Self {
            routes: Arc::new(Routes::new(Arc::new(options), seeds, Arc::new(map))),
        }
    }

    /// The client of one node, `host:port`, for requests that must not be routed, such as fetching
    /// a configuration. While it connects, a newer map without the node ends that with an error.
    pub fn node(&self, address: &str) -> NodeClient {
        let address = named(address.into());
        self.routes.node(&address, (self.routes.map)().as_deref())
    }

    /// The nodes of the current map, or the seeds without a map.
    pub fn addresses(&self) -> Vec<String> {
        match (self.routes.map)() {
            Some(map) => map.addresses().map(str::to_owned).collect(),
            None => self.routes.seeds.iter().map(ToString::to_string).collect(),
        }
    }

    /// The node that owns a key by the current map.
    pub fn node_of(&self, key: &[u8]) -> Option<String> {
        let map = (self.routes.map)()?;
        map.node_of(map.vbucket_of(key)).map(str::to_owned)
    }

    /// The error map of a node, if it was connected before.
    pub fn error_map_json(&self, address: &str) -> Option<Bytes> {
        let address = named(address.into());
        self.routes.nodes().get(&address)?.error_map_json()
    }
}

impl Service<KvRequest> for RoutedClient {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = RoutedFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: KvRequest) -> RoutedFuture {
        let routes = &self.routes;
        let state = if let Some(route) = routes.route(&mut request) {
            State::of(routes, route)
        } else if routes.options.bootstrap == Bootstrap::Memcached {
            let by_key = vbucket_of(&request.key, routes.seeds.len());
            match routes.seed(usize::from(by_key)) {
                Some(node) => State::Sending(node.start(&request).into()),
                None => State::Failed(Some(Box::new(no_node(None, "there is no seed")))),
            }
        } else {
            let seeding = Seeding::begin(routes, routes.turn(), request);
            State::Seeding(Box::new(seeding))
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
enum State {
    // Boxed, as a request that waits for its connection.
    Seeding(Box<Seeding>),
    Watching(Box<Watching>),
    Sending(Sending),
    Failed(Option<Box<ClientError>>),
}

impl State {
    fn of(routes: &Arc<Routes>, route: Route) -> Self {
        match route {
            Ok(sending) if sending.response.is_dialling() => {
                Self::Watching(Box::new(Watching::begin(routes, sending)))
            }
            Ok(sending) => Self::Sending(sending),
            Err(error) => Self::Failed(Some(Box::new(error))),
        }
    }
}

impl RoutedFuture {
    /// The node of the request, `host:port`, as soon as it is known; before that the seed that is
    /// dialled.
    pub fn address(&self) -> Option<&Arc<str>> {
        match &self.state {
            State::Sending(sending) => Some(sending.response.address()),
            State::Watching(watching) => Some(watching.sending().response.address()),
            State::Seeding(seeding) => seeding.address(),
            State::Failed(_) => None,
        }
    }

    /// Whether the request still waits for a permit of its node or a connection, so that no byte of
    /// it was sent.
    pub fn is_dialling(&self) -> bool {
        match &self.state {
            State::Seeding(_) | State::Failed(_) => true,
            State::Watching(watching) => watching.sending().response.is_dialling(),
            State::Sending(sending) => sending.response.is_dialling(),
        }
    }
}

impl Future for RoutedFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let next = match &mut self.state {
                State::Seeding(seeding) => {
                    let route = ready!(seeding.poll(cx));
                    State::of(seeding.routes(), route)
                }
                State::Watching(watching) => return watching.poll(cx),
                State::Sending(sending) => return sending.poll(cx),
                State::Failed(error) => {
                    return Poll::Ready(Err(*error.take().expect("polled after completion")));
                }
            };
            self.state = next;
        }
    }
}
