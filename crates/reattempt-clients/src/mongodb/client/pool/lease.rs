//! A connection in use.

use std::io::ErrorKind;
use std::time::Duration;

use bson::Document;
use tokio::sync::watch;

use super::Pool;
use crate::lock::lock;
use crate::mongodb::client::encoded::Encoded;
use crate::mongodb::client::{Connection, During, MongoError};
use crate::mongodb::wire::Reply;

/// A connection in use. On drop it returns to the pool if it is usable, and is closed otherwise.
#[derive(Debug)]
pub struct Lease {
    pub(super) connection: Option<Connection>,
    pub(super) generation: u64,
    pub(super) pool: Pool,
    pub(super) interrupted: watch::Receiver<()>,
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
        let message = Encoded::new(request_id, command, self.connection().origin())?;
        self.send(&message, timeout).await
    }

    /// As [`Lease::call`].
    pub(in crate::mongodb::client) async fn send(
        &mut self,
        message: &Encoded,
        timeout: Option<Duration>,
    ) -> Result<Reply, MongoError> {
        let mut interrupted = self.interrupted.clone();
        let connection = self.connection();
        let origin = connection.origin().clone();
        tokio::select! {
            biased;
            outcome = connection.send(message, timeout) => outcome,
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
        let mut state = lock(&self.pool.inner.state);
        state.leased -= 1;
        let sound = self.connection.take().filter(|c| !c.is_busy());
        if let Some(connection) = sound.filter(|_| state.generation == self.generation) {
            state.idle.push(connection);
        }
        self.pool.serve(&mut state);
    }
}
