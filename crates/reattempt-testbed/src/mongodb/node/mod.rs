//! A node that speaks MongoDB's wire protocol and fails on demand.

mod builder;
mod codes;
mod commands;
mod cursors;
mod matching;
mod replica_set;
mod role;
mod script;
mod seen;
mod serve;
mod shared;
mod store;
#[cfg(test)]
mod tests;

pub use builder::NodeBuilder;
pub use codes::code_name;
pub use replica_set::ReplicaSet;
pub use role::{Membership, Role};
pub use script::{Script, Step};
pub use seen::SeenCommand;
pub use store::Store;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use cursors::Cursors;
use shared::Shared;

use crate::lock::lock;

/// A running node. Dropping it ends it.
#[derive(Debug)]
pub struct Node {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// The address that the node listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as replica sets and clients write it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.me
    }

    /// A connection string for this node only.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.shared.me)
    }

    /// The script of deviations from usual answers.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.shared.script
    }

    /// The documents.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// All recorded commands, in order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenCommand> {
        self.shared.seen.borrow().clone()
    }

    /// The recorded commands with this name.
    #[must_use]
    pub fn seen_named(&self, name: &str) -> Vec<SeenCommand> {
        let seen = self.shared.seen.borrow();
        seen.iter()
            .filter(|command| command.name == name)
            .cloned()
            .collect()
    }

    /// Waits until `count` commands with this name were recorded; returns them.
    pub async fn until_seen(&self, name: &str, count: usize) -> Vec<SeenCommand> {
        let mut seen = self.shared.seen.subscribe();
        let enough = |seen: &Vec<SeenCommand>| {
            seen.iter().filter(|command| command.name == name).count() >= count
        };
        // Cannot fail: the sender lives as long as `self`.
        let _ = seen.wait_for(enough).await;
        self.seen_named(name)
    }

    /// The number of accepted connections, including those closed by `refuse_connections`.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Closes the next `count` connections as soon as they are accepted.
    pub fn refuse_connections(&self, count: u64) {
        self.shared.refuse.store(count, Ordering::Relaxed);
    }

    /// Closes all open connections; new ones are accepted.
    pub fn close_connections(&self) {
        self.shared.closer.send_replace(());
    }

    /// The current role.
    #[must_use]
    pub fn role(&self) -> Role {
        lock(&self.shared.standing).role
    }

    /// Changes the role from the next answer on.
    pub fn set_role(&self, role: Role) {
        lock(&self.shared.standing).role = role;
    }

    /// Makes the node a member of a set.
    pub fn set_membership(&self, membership: Membership) {
        lock(&self.shared.standing).set = Some(membership);
    }

    /// Changes the wire version from the next handshake on.
    pub fn set_max_wire_version(&self, version: i32) {
        lock(&self.shared.standing).max_wire_version = version;
    }

    /// Whether the node accepts connections.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.task).is_some()
    }

    /// Stops listening and closes all connections. The documents are kept.
    pub async fn stop(&self) {
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.abort();
            // The task ends by being aborted.
            let _ = task.await;
        }
        self.close_connections();
        *lock(&self.shared.cursors) = Cursors::default();
    }

    /// Listens again at the same address after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// The error of binding the socket, for example when another program took the port.
    pub async fn restart(&self) -> io::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let listener = TcpListener::bind(self.addr).await?;
        let task = tokio::spawn(serve::accept(listener, Arc::clone(&self.shared)));
        *lock(&self.task) = Some(task);
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}
