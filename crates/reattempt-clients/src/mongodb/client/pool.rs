//! The connections to one server.

mod lease;
mod opening;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

pub use lease::Lease;
use opening::Opening;

use super::{ClientOptions, Connection, MongoError, Origin};
use crate::lock::lock;

/// The pool of one server. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: String,
    options: Arc<ClientOptions>,
    runtime: Handle,
    state: Mutex<State>,
    /// Ends the calls on connections in use.
    interrupted: watch::Sender<()>,
}

/// While callers wait, no connection is idle.
#[derive(Debug, Default)]
struct State {
    generation: u64,
    paused: bool,
    idle: Vec<Connection>,
    /// The number of leases.
    leased: usize,
    last_ticket: u64,
    /// Callers by their tickets: the first has waited longest. A receiver lives as long as its
    /// entry. A caller whose sender is dropped learns that the pool was cleared.
    waiting: BTreeMap<u64, oneshot::Sender<Result<Lease, MongoError>>>,
    /// By the tickets of the callers that caused them, which may be gone.
    openings: BTreeMap<u64, Opening>,
}

impl State {
    /// Who gets the error of this opening: the caller that caused it or, if that is gone, the one
    /// that has waited longest and has no opening of its own.
    fn learns_of(&mut self, ticket: u64) -> Option<oneshot::Sender<Result<Lease, MongoError>>> {
        let own = self.waiting.remove(&ticket);
        own.or_else(|| {
            let without = |ticket: &&u64| !self.openings.contains_key(*ticket);
            let oldest = self.waiting.keys().find(without).copied()?;
            self.waiting.remove(&oldest)
        })
    }
}

/// Why no connection was returned, and which generation it would have had.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckOutError {
    /// The pool's generation when the check-out began.
    pub generation: u64,
    /// The failure.
    pub error: MongoError,
}

impl Pool {
    /// An empty pool. Must be called within a tokio runtime, on which its connections are opened.
    #[must_use]
    pub fn new(address: &str, options: Arc<ClientOptions>) -> Self {
        Self {
            inner: Arc::new(Inner {
                address: address.to_owned(),
                options,
                runtime: Handle::current(),
                state: Mutex::default(),
                interrupted: watch::Sender::new(()),
            }),
        }
    }

    /// The server.
    pub(super) fn address(&self) -> &str {
        &self.inner.address
    }

    /// Whether both share their connections.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Increases with every [`clear`](Self::clear).
    #[must_use]
    pub fn generation(&self) -> u64 {
        lock(&self.inner.state).generation
    }

    /// Closes connections that are idle or being opened, fails waiting callers, and returns no
    /// connection until [`ready`](Self::ready). Connections in use are closed when they are
    /// returned, and go on until then unless they are [interrupted](Self::interrupt).
    pub fn clear(&self) {
        let mut state = lock(&self.inner.state);
        state.generation += 1;
        state.paused = true;
        state.idle.clear();
        state.openings.clear();
        state.waiting.clear();
    }

    /// Ends the [`calls`](Lease::call) in flight. After [`clear`](Self::clear), for a server that
    /// no longer answers.
    pub fn interrupt(&self) {
        self.inner.interrupted.send_replace(());
    }

    /// Allows check-outs again: the server is available.
    pub fn ready(&self) {
        lock(&self.inner.state).paused = false;
    }

    /// Returns an idle connection or a new one.
    ///
    /// A new one is opened by a task of its own, with `connect_timeout` as its limit: dropping this
    /// future does not end it, and its connection serves the caller that has waited longest, or
    /// becomes idle.
    ///
    /// # Errors
    ///
    /// [`MongoError::PoolCleared`], [`MongoError::WaitQueueTimeout`], or the error of opening a
    /// connection. `max_wire_version` is the monitor's value, for errors without a connection.
    pub async fn check_out(&self, max_wire_version: Option<i32>) -> Result<Lease, CheckOutError> {
        let origin = || Origin {
            server: self.inner.address.clone(),
            max_wire_version,
            connection: None,
        };
        let began = Instant::now();
        let (generation, queued) = self.queue();
        let fail = |error| CheckOutError { generation, error };
        let cleared = || fail(MongoError::PoolCleared { origin: origin() });
        let mut queued = queued.ok_or_else(cleared)?;
        let ticket = queued.ticket;
        let outcome = tokio::select! {
            biased;
            outcome = &mut queued.outcome => outcome,
            () = self.waited_too_long(ticket) => {
                let (origin, waited) = (origin(), began.elapsed());
                return Err(fail(MongoError::WaitQueueTimeout { origin, waited }));
            }
        };
        let lease = outcome.map_err(|_| cleared())?.map_err(fail)?;
        // The pool may have been cleared since it was handed over.
        if lease.generation != self.generation() {
            return Err(cleared());
        }
        Ok(lease)
    }

    /// The generation, and a place in the queue unless the pool is paused.
    fn queue(&self) -> (u64, Option<Queued>) {
        let mut state = lock(&self.inner.state);
        if state.paused {
            return (state.generation, None);
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let (sender, outcome) = oneshot::channel();
        state.waiting.insert(ticket, sender);
        self.serve(&mut state);
        let pool = self.clone();
        let queued = Queued {
            pool,
            ticket,
            outcome,
        };
        (state.generation, Some(queued))
    }

    /// `wait_queue_timeout`, which does not limit the opening of a connection.
    async fn waited_too_long(&self, ticket: u64) {
        match self.inner.options.wait_queue_timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
        if lock(&self.inner.state).openings.contains_key(&ticket) {
            std::future::pending().await
        }
    }

    /// Hands idle connections to the callers that have waited longest, and opens one for each of
    /// the others, as far as the limits allow.
    fn serve(&self, state: &mut State) {
        while !state.waiting.is_empty() {
            match state.idle.pop() {
                // The server may have closed it since.
                Some(idle) if !idle.is_quiet() => {}
                Some(idle) => self.hand(state, idle),
                None => break,
            }
        }
        let options = &self.inner.options;
        let size = match options.max_pool_size {
            0 => usize::MAX,
            size => size,
        };
        while state.openings.len() < options.max_connecting.max(1)
            && state.openings.len() + state.leased < size
        {
            let openings = &mut state.openings;
            let without = |ticket: &&u64| !openings.contains_key(*ticket);
            let Some(ticket) = state.waiting.keys().find(without).copied() else {
                break;
            };
            match Opening::begin(&self.inner, ticket) {
                Some(opening) => drop(openings.insert(ticket, opening)),
                None => drop(state.waiting.remove(&ticket)),
            }
        }
    }

    /// The caller that has waited longest gets it; without one it becomes idle.
    fn hand(&self, state: &mut State, connection: Connection) {
        let Some((_, caller)) = state.waiting.pop_first() else {
            return state.idle.push(connection);
        };
        state.leased += 1;
        // It is received, or dropped with the receiver, which lives longer than the entry.
        let _ = caller.send(Ok(Lease {
            connection: Some(connection),
            generation: state.generation,
            pool: self.clone(),
            interrupted: self.inner.interrupted.subscribe(),
        }));
    }

    /// The task that opens a connection has ended; `None` without having opened or failed to.
    fn opened(&self, ticket: u64, opened: Option<Result<Connection, MongoError>>) {
        let mut state = lock(&self.inner.state);
        // Without its entry the pool was cleared meanwhile.
        if state.openings.remove(&ticket).is_none() {
            return;
        }
        let mut unheard = None;
        match opened {
            Some(Ok(connection)) => self.hand(&mut state, connection),
            Some(Err(error)) => match state.learns_of(ticket) {
                Some(caller) => drop(caller.send(Err(error))),
                None => unheard = Some(error),
            },
            None => drop(state.waiting.remove(&ticket)),
        }
        self.serve(&mut state);
        drop(state);
        if let Some(error) = unheard {
            tracing::debug!(%error, "no connection, and no caller that waits for it");
        }
    }

    /// The number of idle connections.
    #[must_use]
    pub fn idle(&self) -> usize {
        lock(&self.inner.state).idle.len()
    }
}

/// A caller's place in the queue, until it is dropped.
struct Queued {
    pool: Pool,
    ticket: u64,
    outcome: oneshot::Receiver<Result<Lease, MongoError>>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        lock(&self.pool.inner.state).waiting.remove(&self.ticket);
    }
}
