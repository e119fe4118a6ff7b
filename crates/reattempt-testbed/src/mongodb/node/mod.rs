//! A node that looks like MongoDB on the wire, and fails on demand.

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
use std::time::Duration;

use bson::Document;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use codes::CommandError;
use cursors::Cursors;
use fail_point::FailPoint;
use role::Standing;

use super::lock;
use super::scram::{ScramError, Stored};
use super::wire::DEFAULT_LIMIT;

/// The most commands a node remembers to have seen.
const MAX_SEEN: usize = 100_000;

/// SCRAM rounds of the node's users: the fewest that clients take.
const ROUNDS: u32 = 4096;

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

/// How a node shall be. Clones start more of the same, on the same store.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    role: Role,
    max_wire_version: i32,
    limit: usize,
    users: BTreeMap<String, Stored>,
    store: Store,
}

impl NodeBuilder {
    /// What it is; default a standalone.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// The wire version it offers; default 21 (MongoDB 7.0).
    #[must_use]
    pub fn max_wire_version(mut self, version: i32) -> Self {
        self.max_wire_version = version;
        self
    }

    /// The largest message it takes; default 8 MiB.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Adds a user, after which nobody may ask without having authenticated.
    ///
    /// # Errors
    ///
    /// [`ScramError::Password`] for a password that is not printable ASCII.
    pub fn user(mut self, name: &str, password: &str) -> Result<Self, ScramError> {
        let salt: [u8; 16] = rand::random();
        self.users
            .insert(name.to_owned(), Stored::derive(password, &salt, ROUNDS)?);
        Ok(self)
    }

    /// The documents it serves; default its own empty store.
    #[must_use]
    pub fn store(mut self, store: &Store) -> Self {
        self.store = store.clone();
        self
    }

    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// What binding the socket says.
    pub async fn start(self) -> io::Result<Node> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let standing = Standing {
            role: self.role,
            set: None,
            max_wire_version: self.max_wire_version,
        };
        let shared = Arc::new(Shared {
            me: addr.to_string(),
            limit: self.limit,
            users: self.users,
            store: self.store,
            script: Script::default(),
            standing: Mutex::new(standing),
            fail_point: Mutex::new(None),
            cursors: Mutex::default(),
            seen: watch::Sender::default(),
            connections: AtomicU64::new(0),
            messages: AtomicI32::new(1),
            refuse: AtomicU64::new(0),
            closer: watch::Sender::new(()),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Node {
            addr,
            shared,
            task: Mutex::new(Some(task)),
        })
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                    let refused = |left: u64| left.checked_sub(1);
                    let order = Ordering::Relaxed;
                    if shared.refuse.fetch_update(order, order, refused).is_ok() {
                        continue;
                    }
                    // Small answers must not wait for the peer's acknowledgement.
                    let _ = stream.set_nodelay(true);
                    let shared = Arc::clone(&shared);
                    let mut closer = shared.closer.subscribe();
                    connections.spawn(async move {
                        tokio::select! {
                            () = serve::connection(shared, stream, number) => {}
                            _ = closer.changed() => {}
                        }
                    });
                }
                // Out of descriptors, most likely: others have to close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
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
        NodeBuilder {
            role: Role::Standalone,
            max_wire_version: 21,
            limit: DEFAULT_LIMIT,
            users: BTreeMap::new(),
            store: Store::new(),
        }
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
        let task = tokio::spawn(accept(listener, Arc::clone(&self.shared)));
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
