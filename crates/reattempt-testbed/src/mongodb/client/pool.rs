//! The connections to one server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::{ClientOptions, Connection, MongoError, Origin};
use crate::mongodb::lock;

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
    /// Wakes those that wait for a permit when the pool is cleared.
    cleared: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    paused: bool,
    idle: Vec<Connection>,
}

/// Why no connection was given, and of which generation it would have been.
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
            }),
        }
    }

    /// Grows with every [`clear`](Self::clear).
    #[must_use]
    pub fn generation(&self) -> u64 {
        lock(&self.inner.state).generation
    }

    /// Closes idle connections, fails those that wait, and gives no connection until
    /// [`ready`](Self::ready). Connections in use, and those that are being made, are closed when
    /// they come back.
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

    /// Lets connections be given again: the server was seen alive.
    pub fn ready(&self) {
        lock(&self.inner.state).paused = false;
    }

    /// Gives an idle connection or a new one.
    ///
    /// # Errors
    ///
    /// [`MongoError::PoolCleared`], [`MongoError::WaitQueueTimeout`], or what opening a connection
    /// says. `max_wire_version` is what the monitor knows, for errors without a connection.
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
        // The semaphore is never closed; if it were, so would be the pool.
        let permit = permit.map_err(|_| was_cleared())?;
        let idle = {
            let mut state = lock(&self.inner.state);
            if state.generation != generation {
                return Err(was_cleared());
            }
            state.idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            // Good for this one call also when the pool is cleared meanwhile: the server has just
            // answered.
            None => Connection::open(&self.inner.address, &self.inner.options, true)
                .await
                .map_err(fail)?,
        };
        let pool = self.clone();
        Ok(Lease {
            connection: Some(connection),
            generation,
            pool,
            _permit: permit,
        })
    }

    /// How many connections are open and free.
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

/// A connection that is in use. Dropped, it goes back to the pool if it can be used again, and is
/// closed otherwise.
#[derive(Debug)]
pub struct Lease {
    connection: Option<Connection>,
    generation: u64,
    pool: Pool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// The connection.
    pub fn connection(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("a lease has its connection until it is dropped")
    }

    /// The pool's generation that the connection belongs to.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The connection goes back before the permit, which is a field and dropped after this.
        if let Some(connection) = self.connection.take().filter(|c| !c.is_busy()) {
            let mut state = lock(&self.pool.inner.state);
            if state.generation == self.generation {
                state.idle.push(connection);
            }
        }
    }
}
