//! The client of one node: connects on demand and reconnects after a loss.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tower_service::Service;

use super::connection::ResponseFuture;
use super::error::ClientError;
use super::limit::{Acquire, Limit};
use super::link::{ConnectFuture, Link};
use super::options::ClientOptions;
use super::request::KvRequest;
use super::response::KvResponse;
use super::state::Outcome;

/// A tower service for one node. Clones share its connection.
///
/// There is no keep-alive: a connection whose peer went silent is noticed only by requests, and is
/// closed after [`ClientOptions::read_timeout`]. After timeouts [`disconnect`](Self::disconnect)
/// it, so that the next request opens another one sooner.
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

    /// The node, for futures that name it.
    pub(super) fn named(&self) -> &Arc<str> {
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

    /// The node left its cluster: requests that wait for it and are not sent yet wait no longer.
    pub(super) fn leave(&self) {
        self.link.leave();
    }

    /// As [`leave`](Self::leave), of a seed, which may be needed again.
    pub(super) fn leave_for_now(&self) {
        self.link.leave_for_now();
    }

    /// Starts a request for a client that is always ready: the future waits for the permit. Without
    /// a connection it fails if the node left its cluster, which the caller's map may not say yet.
    pub(super) fn start(&self, request: &KvRequest) -> NodeFuture {
        let Some(permit) = self.limit.free() else {
            let queued = queued(self.limit.queue(), self.link.left());
            return self.waiting(Next::Permit(queued), request);
        };
        self.start_with(request, permit, Link::connect_to_member)
    }

    fn start_with(
        &self,
        request: &KvRequest,
        permit: OwnedSemaphorePermit,
        connect: fn(&Arc<Link>) -> ConnectFuture,
    ) -> NodeFuture {
        match self.link.up() {
            Some(connection) => NodeFuture {
                state: State::Sent(connection.send(request, Some(permit))),
            },
            None => self.waiting(Next::Connection(connect(&self.link), Some(permit)), request),
        }
    }

    fn waiting(&self, next: Next, request: &KvRequest) -> NodeFuture {
        NodeFuture {
            state: State::Waiting(Box::new(Waiting {
                next,
                link: self.link.clone(),
                request: request.clone(),
            })),
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
        self.start_with(&request, permit, Link::connect)
    }
}

/// A request to one node: waits for a permit and its connection, then for its response.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct NodeFuture {
    state: State,
}

#[derive(Debug)]
enum State {
    // Boxed, so that every other request has a small future.
    Waiting(Box<Waiting>),
    Sent(ResponseFuture),
}

/// A request that is not sent yet.
#[derive(Debug)]
struct Waiting {
    next: Next,
    link: Arc<Link>,
    request: KvRequest,
}

/// What a request waits for.
enum Next {
    Permit(Queued),
    Connection(ConnectFuture, Option<OwnedSemaphorePermit>),
}

/// Resolves to a permit; to `None` when the node has left its cluster.
type Queued = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + Sync>>;

fn queued(permit: Acquire, left: impl Future<Output = ()> + Send + Sync + 'static) -> Queued {
    Box::pin(async move {
        tokio::select! {
            biased;
            () = left => None,
            permit = permit => permit.ok(),
        }
    })
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permit(_) => "Permit",
            Self::Connection(..) => "Connection",
        })
    }
}

impl Waiting {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseFuture, ClientError>> {
        loop {
            match &mut self.next {
                Next::Permit(queued) => {
                    let permit = ready!(queued.as_mut().poll(cx));
                    let permit = permit.ok_or_else(|| self.link.not_sent())?;
                    self.next = Next::Connection(self.link.connect_to_member(), Some(permit));
                }
                Next::Connection(connect, permit) => {
                    let connection = ready!(Pin::new(connect).poll(cx))?;
                    return Poll::Ready(Ok(connection.send(&self.request, permit.take())));
                }
            }
        }
    }
}

impl NodeFuture {
    /// The node, `host:port`.
    pub fn address(&self) -> &Arc<str> {
        match &self.state {
            State::Waiting(waiting) => waiting.link.address(),
            State::Sent(response) => response.address(),
        }
    }

    /// Whether the request still waits for a permit or a connection, so that no byte of it was
    /// sent.
    pub fn is_dialling(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }
}

impl Future for NodeFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            match &mut self.state {
                State::Waiting(waiting) => self.state = State::Sent(ready!(waiting.poll(cx))?),
                State::Sent(response) => return Pin::new(response).poll(cx),
            }
        }
    }
}
