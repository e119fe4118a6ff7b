//! A node's connection: dialled once for all callers that need it, and again after a loss.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::connection::Connection;
use super::error::{ClientError, CloseReason};
use super::options::ClientOptions;
use crate::lock::lock;

/// The result of dialling.
type Dialled = Result<Connection, ClientError>;

/// Who waits for a dial. Owned by its task: they wait no longer when it ends, however it ends.
type Waiters = Mutex<Vec<oneshot::Sender<Dialled>>>;

/// The connection of one node. Dropping it ends its dial.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<str>,
    options: Arc<ClientOptions>,
    state: Mutex<State>,
    last: Mutex<Last>,
    /// Whether the node left its cluster and is no seed. A change ends the waits for a permit.
    left: watch::Sender<bool>,
}

#[derive(Debug)]
enum State {
    Down,
    Dialling {
        waiters: Weak<Waiters>,
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

impl Link {
    pub(super) fn new(address: Arc<str>, options: Arc<ClientOptions>) -> Self {
        Self {
            address,
            options,
            state: Mutex::new(State::Down),
            last: Mutex::default(),
            left: watch::Sender::default(),
        }
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The current connection, or a new one. Concurrent callers share one dial.
    pub(super) fn connect(self: &Arc<Self>) -> ConnectFuture {
        self.connect_in(self.state())
    }

    /// As [`connect`](Self::connect), unless the node left its cluster: fails then.
    pub(super) fn connect_to_member(self: &Arc<Self>) -> ConnectFuture {
        // Under the lock, so that a node that leaves later ends the dial that begins here.
        let state = self.state();
        if *self.left.borrow() {
            return ConnectFuture(Waiting::Known(Some(Err(self.not_sent()))));
        }
        self.connect_in(state)
    }

    fn connect_in(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> ConnectFuture {
        if let State::Up(connection) = &*state {
            if !connection.is_closed() {
                return ConnectFuture(Waiting::Known(Some(Ok(connection.clone()))));
            }
            self.remember(connection);
        }
        let (tell, result) = oneshot::channel();
        let dialling = match &*state {
            State::Dialling { waiters, .. } => waiters.upgrade(),
            _ => None,
        };
        if let Some(waiters) = dialling {
            lock(&waiters).push(tell);
        } else {
            let waiters = Arc::new(Mutex::new(vec![tell]));
            let dialling = Arc::downgrade(&waiters);
            let (link, options) = (Arc::downgrade(self), self.options.clone());
            let task = tokio::spawn(dial(link, waiters, self.address.clone(), options));
            *state = State::Dialling {
                waiters: dialling,
                task: task.abort_handle(),
            };
        }
        drop(state);
        ConnectFuture(Waiting::Dialling {
            result,
            link: self.clone(),
        })
    }

    /// The usable connection, if there is one.
    pub(super) fn up(&self) -> Option<Connection> {
        match &*self.state() {
            State::Up(connection) if !connection.is_closed() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Closes the connection with this number, if it is the current one.
    pub(super) fn disconnect(&self, connection: u64) {
        if let State::Up(current) = &*self.state() {
            if current.id() == connection {
                current.close();
            }
        }
    }

    /// The node left its cluster: no request waits for a permit or a connection to it any more.
    /// What was sent to it may still be answered.
    pub(super) fn leave(&self) {
        self.left.send_replace(true);
        if let State::Dialling { task, .. } = &*self.state() {
            task.abort();
        }
    }

    /// As [`leave`](Self::leave), of a seed, which may be needed again: its dial goes on.
    pub(super) fn leave_for_now(&self) {
        self.left.send_replace(false);
        if let State::Dialling { waiters, .. } = &*self.state() {
            if let Some(waiters) = waiters.upgrade() {
                lock(&waiters).clear();
            }
        }
    }

    /// Resolves when the node leaves its cluster, or if it left before and is no seed.
    pub(super) fn left(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let mut left = self.left.subscribe();
        async move {
            let has_left = *left.borrow();
            if !has_left {
                // An error means that the link was dropped, after which no request waits for it.
                let _ = left.changed().await;
            }
        }
    }

    /// The error of a request that does not wait for this node any longer.
    pub(super) fn not_sent(&self) -> ClientError {
        ClientError::NotSent {
            address: self.address.clone(),
            reason: CloseReason::Local,
        }
    }

    /// The error map of the current or the last connection.
    pub(super) fn error_map_json(&self) -> Option<Bytes> {
        match &*self.state() {
            State::Up(connection) => connection.error_map_json(),
            _ => lock(&self.last).error_map.clone(),
        }
    }

    /// The last cluster configuration that the node sent.
    pub(super) fn cluster_config_json(&self) -> Option<Bytes> {
        let current = match &*self.state() {
            State::Up(connection) => connection.cluster_config_json(),
            _ => None,
        };
        current.or_else(|| lock(&self.last).config.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn remember(&self, connection: &Connection) {
        let mut last = lock(&self.last);
        last.error_map = connection.error_map_json();
        if let Some(config) = connection.cluster_config_json() {
            last.config = Some(config);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let State::Dialling { task, .. } = &*self.state() {
            task.abort();
        }
    }
}

/// Dials once and notifies all waiters. Holds no strong handle, so that dropping the client ends
/// its dial.
async fn dial(
    link: Weak<Link>,
    waiters: Arc<Waiters>,
    address: Arc<str>,
    options: Arc<ClientOptions>,
) {
    let dialled = Connection::connect(&address, &options).await;
    let Some(link) = link.upgrade() else {
        return;
    };
    *link.state() = match &dialled {
        Ok(connection) => State::Up(connection.clone()),
        Err(_) => State::Down,
    };
    for waiter in lock(&waiters).drain(..) {
        // An error means that the waiter was dropped.
        let _ = waiter.send(dialled.clone());
    }
}

/// Resolves to a node's connection.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ConnectFuture(Waiting);

#[derive(Debug)]
enum Waiting {
    Known(Option<Dialled>),
    /// Holds the link: this may be the last handle, and a dropped link does not dial.
    Dialling {
        result: oneshot::Receiver<Dialled>,
        link: Arc<Link>,
    },
}

impl Future for ConnectFuture {
    type Output = Dialled;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Dialled> {
        match &mut self.0 {
            Waiting::Known(known) => Poll::Ready(known.take().expect("polled after completion")),
            Waiting::Dialling { result, link } => {
                let result = ready!(Pin::new(result).poll(cx));
                Poll::Ready(result.unwrap_or_else(|_| {
                    // There is no result: the node left its cluster, a hook panicked or the runtime
                    // is shutting down.
                    Err(link.not_sent())
                }))
            }
        }
    }
}
