//! The client of one node: connects on demand and reconnects after a loss.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tower_service::Service;

use super::connection::ResponseFuture;
use super::error::ClientError;
use super::limit::Limit;
use super::link::{ConnectFuture, Link};
use super::options::ClientOptions;
use super::request::KvRequest;
use super::response::KvResponse;
use super::state::Outcome;

/// A tower service for one node. Clones share its connection.
///
/// There is no keep-alive: a connection whose peer went silent is used until the operating system
/// gives it up. After timeouts [`disconnect`](Self::disconnect) it, so that the next request opens
/// another one.
#[derive(Clone, Debug)]
pub struct NodeClient {
    link: Arc<Link>,
    limit: Limit,
}

impl NodeClient {
    /// Creates a client of `host:port`. It connects on the first request.
    pub fn new(address: impl Into<Arc<str>>, options: ClientOptions) -> Self {
        Self::shared(address.into(), Arc::new(options))
    }

    pub(super) fn shared(address: Arc<str>, options: Arc<ClientOptions>) -> Self {
        let limit = Limit::new(options.max_in_flight);
        Self {
            link: Arc::new(Link::new(address, options)),
            limit,
        }
    }

    /// The node, `host:port`.
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// The current connection, or a new one. Concurrent callers share one dial.
    pub fn connect(&self) -> ConnectFuture {
        self.link.connect()
    }

    /// The error map of the current or the last connection.
    pub fn error_map_json(&self) -> Option<Bytes> {
        self.link.error_map_json()
    }

    /// The last cluster configuration that this node sent.
    pub fn cluster_config_json(&self) -> Option<Bytes> {
        self.link.cluster_config_json()
    }

    /// Whether there is a usable connection.
    pub fn is_connected(&self) -> bool {
        self.link.up().is_some()
    }

    /// Closes the connection with this number ([`KvResponse::connection`]) if it is the current
    /// one. Its unanswered requests fail; the next request connects again.
    pub fn disconnect(&self, connection: u64) {
        self.link.disconnect(connection);
    }

    /// The node left its cluster: requests that wait for a connection to it wait no longer.
    pub(super) fn leave(&self) {
        self.link.leave();
    }

    pub(super) fn start(
        &self,
        request: KvRequest,
        permit: Option<OwnedSemaphorePermit>,
    ) -> NodeFuture {
        let state = match self.link.up() {
            Some(connection) => State::Sent(connection.send(&request, permit)),
            None => State::Connecting(Box::new(Connecting {
                connect: self.connect(),
                request,
                permit,
            })),
        };
        NodeFuture {
            state,
            address: self.link.address().clone(),
        }
    }
}

impl Service<KvRequest> for NodeClient {
    type Response = KvResponse;
    type Error = ClientError;
    type Future = NodeFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.limit.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, request: KvRequest) -> NodeFuture {
        let permit = self.limit.take();
        self.start(request, Some(permit))
    }
}

/// A request to one node: waits for its connection, then for its response.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct NodeFuture {
    state: State,
    address: Arc<str>,
}

#[derive(Debug)]
enum State {
    // Boxed, so that every other request has a small future.
    Connecting(Box<Connecting>),
    Sent(ResponseFuture),
}

/// A request that waits for its connection.
#[derive(Debug)]
struct Connecting {
    connect: ConnectFuture,
    request: KvRequest,
    permit: Option<OwnedSemaphorePermit>,
}

impl NodeFuture {
    /// The node, `host:port`.
    pub fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Whether the request still waits for a connection, so that no byte of it was sent.
    pub fn is_dialling(&self) -> bool {
        matches!(self.state, State::Connecting(_))
    }
}

impl Future for NodeFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let State::Connecting(waiting) = &mut self.state {
            let connection = ready!(Pin::new(&mut waiting.connect).poll(cx))?;
            let sent = connection.send(&waiting.request, waiting.permit.take());
            self.state = State::Sent(sent);
        }
        match &mut self.state {
            State::Sent(response) => Pin::new(response).poll(cx),
            State::Connecting(_) => Poll::Pending,
        }
    }
}
