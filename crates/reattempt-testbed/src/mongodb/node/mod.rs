//! A node that looks like MongoDB on the wire, and fails on demand.

mod builder;
mod codes;
mod commands;
mod cursors;
mod fail_point;
mod matching;
mod replica_set;
mod role;
mod script;
mod serve;
mod store;
#[cfg(test)]
mod tests;

pub use builder::NodeBuilder;
pub use codes::code_name;
pub use replica_set::ReplicaSet;
pub use role::{Membership, Role};
pub use script::{Script, Step};
pub use store::Store;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bson::Document;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use codes::CommandError;
use cursors::Cursors;
use fail_point::FailPoint;
use role::Standing;

use super::lock;
use super::scram::Stored;

/// The most commands a node remembers to have seen.
const MAX_SEEN: usize = 100_000;

/// A command that reached a node.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCommand {
    /// Its name, as sent.
    pub name: String,
    /// `$db`.
    pub database: String,
    /// All of it.
    pub document: Document,
    /// The id in the message's header.
    pub request_id: i32,
    /// Which connection to this node it came on; the first is 1.
    pub connection: u64,
    /// How many commands came on that connection before it.
    pub ordinal: u64,
    /// When it came.
    pub at: Instant,
    /// Whether it came as OP_QUERY.
    pub legacy: bool,
}

impl SeenCommand {
    /// Whether this is what a client wants, not how it keeps house.
    #[must_use]
    pub fn is_data(&self) -> bool {
        !matches!(
            script::canonical(&self.name),
            "hello"
                | "saslStart"
                | "saslContinue"
                | "ping"
                | "endSessions"
                | "buildInfo"
                | "killCursors"
                | "configureFailPoint"
        )
    }
}

/// What all connections to a node share.
#[derive(Debug)]
struct Shared {
    me: String,
    limit: usize,
    users: BTreeMap<String, Stored>,
    store: Store,
    script: Script,
    standing: Mutex<Standing>,
    fail_point: Mutex<Option<FailPoint>>,
    cursors: Mutex<Cursors>,
    seen: watch::Sender<Vec<SeenCommand>>,
    connections: AtomicU64,
    messages: AtomicI32,
    refuse: AtomicU64,
    closer: watch::Sender<()>,
}

impl Shared {
    fn record(&self, command: &SeenCommand) {
        self.seen.send_modify(|seen| {
            if seen.len() < MAX_SEEN {
                seen.push(command.clone());
            }
        });
    }

    fn next_message(&self) -> i32 {
        self.messages.fetch_add(1, Ordering::Relaxed)
    }
}

/// A running node. It ends when this is dropped.
#[derive(Debug)]
pub struct Node {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// A standalone without users.
    ///
    /// # Errors
    ///
    /// What binding the socket says.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A node to describe first.
    #[must_use]
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as replica sets and clients write it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.me
    }

    /// A connection string for this node alone.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.shared.me)
    }

    /// What it shall do other than answer.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.shared.script
    }

    /// What it holds.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Every command that came, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenCommand> {
        self.shared.seen.borrow().clone()
    }

    /// The commands of this name that came.
    #[must_use]
    pub fn seen_named(&self, name: &str) -> Vec<SeenCommand> {
        let seen = self.shared.seen.borrow();
        seen.iter()
            .filter(|command| command.name == name)
            .cloned()
            .collect()
    }

    /// Waits until `count` commands of this name came; returns them.
    pub async fn until_seen(&self, name: &str, count: usize) -> Vec<SeenCommand> {
        let mut seen = self.shared.seen.subscribe();
        let enough = |seen: &Vec<SeenCommand>| {
            seen.iter().filter(|command| command.name == name).count() >= count
        };
        // The sender lives as long as `self`: this cannot fail.
        let _ = seen.wait_for(enough).await;
        self.seen_named(name)
    }

    /// How many connections were taken, refused ones too.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Sets or ends the `failCommand` fail point, like the command `configureFailPoint`.
    ///
    /// # Errors
    ///
    /// The server's message, for a document it would not take.
    pub fn fail_point(&self, command: &Document) -> Result<(), String> {
        let point = FailPoint::parse(command).map_err(|error| error.message)?;
        *lock(&self.shared.fail_point) = point;
        Ok(())
    }

    /// Closes the next `count` connections as soon as they are taken.
    pub fn refuse_connections(&self, count: u64) {
        self.shared.refuse.store(count, Ordering::Relaxed);
    }

    /// Closes all open connections; new ones are taken.
    pub fn close_connections(&self) {
        self.shared.closer.send_replace(());
    }

    /// What it is.
    #[must_use]
    pub fn role(&self) -> Role {
        lock(&self.shared.standing).role
    }

    /// Makes it another role, from its next answer on.
    pub fn set_role(&self, role: Role) {
        lock(&self.shared.standing).role = role;
    }

    /// Makes it a member of a set.
    pub fn set_membership(&self, membership: Membership) {
        lock(&self.shared.standing).set = Some(membership);
    }

    /// Makes it offer another wire version, from the next handshake on.
    pub fn set_max_wire_version(&self, version: i32) {
        lock(&self.shared.standing).max_wire_version = version;
    }

    /// Whether it takes connections.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.task).is_some()
    }

    /// Stops listening and closes all connections. What it holds stays.
    pub async fn stop(&self) {
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.abort();
            // Aborted is how it ends.
            let _ = task.await;
        }
        self.close_connections();
        *lock(&self.shared.cursors) = Cursors::default();
    }

    /// Listens again at the same address after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// What binding the socket says, for example when another program took the port.
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
