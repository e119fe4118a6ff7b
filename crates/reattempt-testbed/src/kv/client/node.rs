//! The client of one node: connects on demand and reconnects after a loss.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::AbortHandle;
use tower_service::Service;

use super::connection::{Connection, ResponseFuture};
use super::dial::{ConnectFuture, Dialled};
use super::error::{ClientError, CloseReason};
use super::limit::Limit;
use super::options::ClientOptions;
use super::request::KvRequest;
use super::response::KvResponse;
use super::state::Outcome;

/// A tower service for one node. Clones share its connection.
#[derive(Clone, Debug)]
pub struct NodeClient {
    shared: Arc<Shared>,
    limit: Limit,
}

#[derive(Debug)]
struct Shared {
    address: Arc<str>,
    options: Arc<ClientOptions>,
    link: Mutex<Link>,
    last: Mutex<Last>,
}

#[derive(Debug)]
enum Link {
    Down,
    Dialling {
        waiters: Vec<oneshot::Sender<Dialled>>,
        task: AbortHandle,
    },
    Up(Connection),
}

/// Facts learned from the last connection, kept after its end.
#[derive(Debug, Default)]
struct Last {
    error_map: Option<Bytes>,
    config: Option<Bytes>,
}

impl NodeClient {
    /// Creates a client of `host:port`. It connects on the first request.
    pub fn new(address: impl Into<Arc<str>>, options: ClientOptions) -> Self {
        Self::shared(address.into(), Arc::new(options))
    }

    pub(super) fn shared(address: Arc<str>, options: Arc<ClientOptions>) -> Self {
        let limit = Limit::new(options.max_in_flight);
        let (link, last) = (Mutex::new(Link::Down), Mutex::default());
        Self {
            shared: Arc::new(Shared {
                address,
                options,
                link,
                last,
            }),
            limit,
        }
    }

    /// The node, `host:port`.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// The current connection, or a new one. Concurrent callers share one dial.
    pub fn connect(&self) -> ConnectFuture {
        let mut link = self.shared.link();
        if let Link::Up(connection) = &*link {
            if !connection.is_closed() {
                return ConnectFuture::known(connection.clone());
            }
            self.shared.remember(connection);
        }
        let (tell, result) = oneshot::channel();
        if let Link::Dialling { waiters, .. } = &mut *link {
            waiters.push(tell);
        } else {
            let task = tokio::spawn(dial(
                Arc::downgrade(&self.shared),
                self.shared.address.clone(),
                self.shared.options.clone(),
            ));
            *link = Link::Dialling {
                waiters: vec![tell],
                task: task.abort_handle(),
            };
        }
        drop(link);
        ConnectFuture::dialling(result, self.clone())
    }

    /// The error map of the current or the last connection.
    pub fn error_map_json(&self) -> Option<Bytes> {
        match &*self.shared.link() {
            Link::Up(connection) => connection.error_map_json(),
            _ => self.shared.last().error_map.clone(),
        }
    }

    /// The last cluster configuration that this node sent.
    pub fn cluster_config_json(&self) -> Option<Bytes> {
        let current = match &*self.shared.link() {
            Link::Up(connection) => connection.cluster_config_json(),
            _ => None,
        };
        current.or_else(|| self.shared.last().config.clone())
    }

    /// Whether there is a usable connection.
    pub fn is_connected(&self) -> bool {
        matches!(&*self.shared.link(), Link::Up(connection) if !connection.is_closed())
    }

    /// Closes the connection with this number ([`KvResponse::connection`]) if it is the current
    /// one. Its unanswered requests fail; the next request connects again.
    pub fn disconnect(&self, connection: u64) {
        if let Link::Up(current) = &*self.shared.link() {
            if current.id() == connection {
                current.close();
            }
        }
    }

    /// The dial task ended without a result: a hook panicked or the runtime is shutting down.
    pub(super) fn dial_ended(&self) -> ClientError {
        ClientError::NotSent {
            address: self.shared.address.clone(),
            reason: CloseReason::Local,
        }
    }

    pub(super) fn start(
        &self,
        request: KvRequest,
        permit: Option<OwnedSemaphorePermit>,
    ) -> NodeFuture {
        let up = match &*self.shared.link() {
            Link::Up(connection) if !connection.is_closed() => Some(connection.clone()),
            _ => None,
        };
        let state = match up {
            Some(connection) => State::Sent(connection.send(&request, permit)),
            None => State::Connecting {
                connect: self.connect(),
                request,
                permit,
            },
        };
        NodeFuture {
            state,
            address: self.shared.address.clone(),
        }
    }
}

impl Shared {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, connection: &Connection) {
        let mut last = self.last();
        last.error_map = connection.error_map_json();
        if let Some(config) = connection.cluster_config_json() {
            last.config = Some(config);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Link::Dialling { task, .. } = link {
            task.abort();
        }
    }
}

/// Dials once and notifies all waiters. Holds no strong handle, so that dropping the client ends
/// its dial.
async fn dial(shared: Weak<Shared>, address: Arc<str>, options: Arc<ClientOptions>) {
    /// Notifies all waiters when the task is ended early.
    struct Finish(Weak<Shared>, Option<Dialled>);
    impl Drop for Finish {
        fn drop(&mut self) {
            let Some(shared) = self.0.upgrade() else {
                return;
            };
            let result = self.1.take();
            let next = match &result {
                Some(Ok(connection)) => Link::Up(connection.clone()),
                _ => Link::Down,
            };
            let before = std::mem::replace(&mut *shared.link(), next);
            if let (Link::Dialling { waiters, .. }, Some(result)) = (before, result) {
                for waiter in waiters {
                    // An error means that the waiter was dropped.
                    let _ = waiter.send(result.clone());
                }
            }
        }
    }
    let mut finish = Finish(shared, None);
    finish.1 = Some(Connection::connect(&address, &options).await);
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
    Connecting {
        connect: ConnectFuture,
        request: KvRequest,
        permit: Option<OwnedSemaphorePermit>,
    },
    Sent(ResponseFuture),
}

impl NodeFuture {
    /// The node, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the request still waits for a connection, so that no byte of it was sent.
    pub fn is_dialling(&self) -> bool {
        matches!(self.state, State::Connecting { .. })
    }
}

impl Future for NodeFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let State::Connecting {
            connect,
            request,
            permit,
        } = &mut self.state
        {
            let connection = ready!(Pin::new(connect).poll(cx))?;
            let sent = connection.send(request, permit.take());
            self.state = State::Sent(sent);
        }
        match &mut self.state {
            State::Sent(response) => Pin::new(response).poll(cx),
            State::Connecting { .. } => Poll::Pending,
        }
    }
}
