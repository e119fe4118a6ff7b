//! A scripted node that speaks the wire protocol of a Couchbase node, and clusters of such nodes.
//!
//! Without a script it behaves normally: it negotiates features, checks logins, stores documents
//! with CAS, expiry and locks, and knows its vbuckets. A [`Script`] or a handler makes it fail.

mod builder;
mod cluster;
mod conn;
mod data;
mod inner;
mod reply;
mod running;
mod seen;
mod session;
mod shared;
mod step;
mod store;
mod subdoc;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpSocket;

use inner::{Handler, Inner};
use running::Running;
use seen::SeenLog;
use shared::Shared;

use crate::lock::lock;

pub use builder::{DEFAULT_ERROR_MAP, NodeBuilder};
pub use cluster::Cluster;
pub use reattempt_clients::kv::feature::{
    FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS, FEATURE_DEDUPE_NMVB, FEATURE_JSON,
    FEATURE_KNOWN_VERSION, FEATURE_NON_BLOCKING_THROTTLING, FEATURE_SELECT_BUCKET,
    FEATURE_TCP_NODELAY, FEATURE_TRACING, FEATURE_UNORDERED, FEATURE_XERROR,
};
pub use seen::SeenRequest;
pub use step::{Script, Step};
pub use store::Store;

/// A running node on a port of 127.0.0.1. Dropping it ends all its tasks.
#[derive(Debug)]
pub struct Node {
    inner: Arc<Inner>,
    address: SocketAddr,
    /// Reserves the port while the node is stopped.
    _reserved: TcpSocket,
    running: Mutex<Option<Running>>,
}

impl Node {
    fn launch(
        index: usize,
        reserved: TcpSocket,
        shared: Arc<Shared>,
        script: Script,
        (handler, bootstrap_handler): (Option<Handler>, Option<Handler>),
    ) -> io::Result<Self> {
        let address = reserved.local_addr()?;
        let listener = running::listen(address)?;
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

    /// The address that the node listens on; unchanged by a restart.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The script; steps can be added while the node runs.
    pub fn script(&self) -> &Script {
        &self.inner.script
    }

    /// The documents.
    pub fn store(&self) -> &Store {
        &self.inner.shared.store
    }

    /// The recorded requests in order of arrival (the last 65,536).
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.log().all()
    }

    /// The recorded requests that are not part of connection bootstrap.
    pub fn seen_data(&self) -> Vec<SeenRequest> {
        let mut seen = self.seen();
        seen.retain(|request| !request.is_bootstrap());
        seen
    }

    /// The number of connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Assigns `scope.collection` an id, or removes it with `None`.
    pub fn set_collection(&self, path: &str, id: Option<u32>) {
        self.inner.shared.set_collection(path, id);
    }

    /// Epoch and revision of the current configuration.
    pub fn revision(&self) -> (i64, i64) {
        self.inner.shared.revision()
    }

    /// The configuration of the bucket as sent by this node.
    pub fn config_json(&self) -> bytes::Bytes {
        self.inner.shared.config_json(self.inner.index, true)
    }

    /// Whether the node listens.
    pub fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Stops listening and drops every connection. When it returns, connections are refused. The
    /// port stays reserved for [`restart`](Self::restart).
    pub async fn stop(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Listens again at the same address. Documents, script and records are kept.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        let listener = running::listen(self.address)?;
        *self.running() = Some(Running::start(listener, self.inner.clone()));
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, SeenLog> {
        lock(&self.inner.seen)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        lock(&self.running)
    }
}
