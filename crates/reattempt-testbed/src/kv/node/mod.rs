//! A scripted node that speaks the wire protocol of a Couchbase node, and clusters of them.
//!
//! Without a script it behaves: it negotiates, checks logins, keeps documents with versions, expiry
//! and locks, and knows which vbuckets it owns. A [`Script`] or a handler makes it misbehave on
//! cue.

mod builder;
mod cluster;
mod conn;
mod data;
mod inner;
mod seen;
mod session;
mod shared;
mod step;
mod store;
mod subdoc;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpSocket;

use inner::{Handler, Inner, Running};
use seen::SeenLog;
use shared::Shared;

pub use builder::{DEFAULT_ERROR_MAP, NodeBuilder};
pub use cluster::Cluster;
pub use seen::SeenRequest;
pub use session::{
    FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS, FEATURE_DEDUPE_NMVB, FEATURE_JSON,
    FEATURE_KNOWN_VERSION, FEATURE_NON_BLOCKING_THROTTLING, FEATURE_SELECT_BUCKET,
    FEATURE_TCP_NODELAY, FEATURE_TRACING, FEATURE_UNORDERED, FEATURE_XERROR,
};
pub use step::{Script, Step};
pub use store::Store;

/// A running node on a port of 127.0.0.1. Everything it runs ends when it is dropped.
#[derive(Debug)]
pub struct Node {
    inner: Arc<Inner>,
    address: SocketAddr,
    /// Keeps the port while the node is stopped.
    _reserved: TcpSocket,
    running: Mutex<Option<Running>>,
}

impl Node {
    /// Sets up a node.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// A node with all defaults.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A node that follows a script.
    pub async fn scripted(steps: impl IntoIterator<Item = Step>) -> io::Result<Self> {
        Self::builder().script(Script::new(steps)).start().await
    }

    fn launch(
        index: usize,
        reserved: TcpSocket,
        shared: Arc<Shared>,
        script: Script,
        (handler, bootstrap_handler): (Option<Handler>, Option<Handler>),
    ) -> io::Result<Self> {
        let address = reserved.local_addr()?;
        let listener = inner::listen(address)?;
        let inner = Arc::new(Inner {
            index,
            shared,
            script,
            handler,
            bootstrap_handler,
            seen: Mutex::new(SeenLog::default()),
            connections: AtomicU64::new(0),
        });
        let running = Mutex::new(Some(Running::start(listener, inner.clone())));
        Ok(Self {
            inner,
            address,
            _reserved: reserved,
            running,
        })
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The script, to add steps while it runs.
    pub fn script(&self) -> &Script {
        &self.inner.script
    }

    /// The documents.
    pub fn store(&self) -> &Store {
        &self.inner.shared.store
    }

    /// Every request so far in order of arrival (the last 65,536).
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.log().all()
    }

    /// The requests so far that do not belong to setting up a connection.
    pub fn seen_data(&self) -> Vec<SeenRequest> {
        let mut seen = self.seen();
        seen.retain(|request| !request.is_bootstrap());
        seen
    }

    /// Forgets the requests so far.
    pub fn forget_seen(&self) {
        self.log().clear();
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Gives `scope.collection` an id, or takes it away with `None`.
    pub fn set_collection(&self, path: &str, id: Option<u32>) {
        self.inner.shared.set_collection(path, id);
    }

    /// Epoch and revision of the configuration in force.
    pub fn revision(&self) -> (i64, i64) {
        self.inner.shared.revision()
    }

    /// The configuration of the bucket as this node hands it out.
    pub fn config_json(&self) -> bytes::Bytes {
        self.inner.shared.config_json(self.inner.index, true)
    }

    /// Whether it listens.
    pub fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Stops listening and drops every connection; returns when it refuses connections.
    /// The port stays reserved for [`restart`](Self::restart).
    pub async fn stop(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Listens again at the same address. Documents, script and log are kept.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        let listener = inner::listen(self.address)?;
        *self.running() = Some(Running::start(listener, self.inner.clone()));
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, SeenLog> {
        self.inner
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
