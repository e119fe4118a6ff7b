//! The connections to one server.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::Document;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::{ClientOptions, Connection, During, MongoError, Origin};
use crate::lock::lock;
use crate::mongodb::wire::Reply;

/// The pool of one server. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: String,
    options: Arc<ClientOptions>,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// Wakes callers that wait for a permit when the pool is cleared.
    cleared: watch::Sender<u64>,
    /// Ends the calls on connections in use.
    interrupted: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    paused: bool,
    idle: Vec<Connection>,
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
    /// An empty pool.
    #[must_use]
    pub fn new(address: &str, options: Arc<ClientOptions>) -> Self {
        let size = match options.max_pool_size {
            0 => Semaphore::MAX_PERMITS,
            size => size.min(Semaphore::MAX_PERMITS),
        };
        Self {
            inner: Arc::new(Inner {
                address: address.to_owned(),
                options,
                permits: Arc::new(Semaphore::new(size)),
                state: Mutex::default(),
                cleared: watch::Sender::new(0),
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

    /// Closes idle connections, fails waiting callers, and returns no connection until
    /// [`ready`](Self::ready). Connections in use or being established are closed when they are
    /// returned, and go on until then unless they are [interrupted](Self::interrupt).
    pub fn clear(&self) {
        let (generation, closed) = {
            let mut state = lock(&self.inner.state);
            state.generation += 1;
            state.paused = true;
            (state.generation, std::mem::take(&mut state.idle))
        };
        drop(closed);
        self.inner.cleared.send_replace(generation);
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
    /// # Errors
    ///
    /// [`MongoError::PoolCleared`], [`MongoError::WaitQueueTimeout`], or the error of opening a
    /// connection. `max_wire_version` is the monitor's value, for errors without a connection.
    pub async fn check_out(&self, max_wire_version: Option<i32>) -> Result<Lease, CheckOutError> {
        let origin = Origin {
            server: self.inner.address.clone(),
            max_wire_version,
            connection: None,
        };
        let began = Instant::now();
        let mut cleared = self.inner.cleared.subscribe();
        let (generation, paused) = {
            let state = lock(&self.inner.state);
            (state.generation, state.paused)
        };
        let fail = |error| CheckOutError { generation, error };
        let was_cleared = || {
            fail(MongoError::PoolCleared {
                origin: origin.clone(),
            })
        };
        if paused {
            return Err(was_cleared());
        }
        let permit = tokio::select! {
            biased;
            _ = cleared.changed() => return Err(was_cleared()),
            permit = Arc::clone(&self.inner.permits).acquire_owned() => permit,
            () = elapsed(self.inner.options.wait_queue_timeout) => {
                let waited = began.elapsed();
                return Err(fail(MongoError::WaitQueueTimeout { origin: origin.clone(), waited }));
            }
        };
        // The semaphore is never closed; otherwise the pool would be closed too.
        let permit = permit.map_err(|_| was_cleared())?;
        // Before the generation is compared: what is interrupted after that is noticed.
        let mut interrupted = self.inner.interrupted.subscribe();
        let idle = {
            let mut state = lock(&self.inner.state);
            if state.generation != generation {
                return Err(was_cleared());
            }
            // The server may have closed some of them since.
            std::iter::from_fn(|| state.idle.pop()).find(Connection::is_quiet)
        };
        let connection = match idle {
            Some(connection) => connection,
            // Usable for this call even when the pool is cleared meanwhile: the server has just
            // answered.
            None => {
                let opened = Connection::open(&self.inner.address, &self.inner.options, true).await;
                interrupted.mark_unchanged();
                opened.map_err(fail)?
            }
        };
        let pool = self.clone();
        Ok(Lease {
            connection: Some(connection),
            generation,
            pool,
            interrupted,
            _permit: permit,
        })
    }

    /// The number of idle connections.
    #[must_use]
    pub fn idle(&self) -> usize {
        lock(&self.inner.state).idle.len()
    }
}

async fn elapsed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// A connection in use. On drop it returns to the pool if it is usable, and is closed otherwise.
#[derive(Debug)]
pub struct Lease {
    connection: Option<Connection>,
    generation: u64,
    pool: Pool,
    interrupted: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// The connection.
    pub fn connection(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("a lease has its connection until it is dropped")
    }

    /// [`Connection::call`], which also ends when the pool is [interrupted](Pool::interrupt).
    ///
    /// # Errors
    ///
    /// Those of the connection, and a network failure when interrupted: the command may have been
    /// carried out.
    pub async fn call(
        &mut self,
        request_id: i32,
        command: &Document,
        timeout: Option<Duration>,
    ) -> Result<Reply, MongoError> {
        let mut interrupted = self.interrupted.clone();
        let connection = self.connection();
        let origin = connection.origin().clone();
        tokio::select! {
            biased;
            outcome = connection.call(request_id, command, timeout) => outcome,
            // The pool and its sender live as long as the lease.
            _ = interrupted.changed() => Err(MongoError::Network {
                origin,
                during: During::Receive,
                kind: ErrorKind::TimedOut,
                message: "the server did not answer its monitor in time".to_owned(),
                labels: Vec::new(),
            }),
        }
    }

    /// The generation of the pool to which the connection belongs.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The connection is returned before the permit, a field that is dropped after this.
        if let Some(connection) = self.connection.take().filter(|c| !c.is_busy()) {
            let mut state = lock(&self.pool.inner.state);
            if state.generation == self.generation {
                state.idle.push(connection);
            }
        }
    }
}
