//! The configuration of a node.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex};

use reattempt_clients::mongodb::scram::RULES;
use reattempt_clients::mongodb::wire::PROTOCOL_LIMIT;
use reattempt_clients::scram::{Salted, ScramError, Stored};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::role::{Role, Standing};
use super::script::Script;
use super::shared::Shared;
use super::store::Store;
use super::{Node, serve};

/// Configures a node. Clones start further nodes on the same store.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    role: Role,
    max_wire_version: i32,
    limit: usize,
    users: BTreeMap<String, Stored>,
    store: Store,
}

impl Node {
    /// Starts a standalone without users.
    ///
    /// # Errors
    ///
    /// The error of binding the socket.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// Creates a builder.
    #[must_use]
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }
}

impl NodeBuilder {
    fn new() -> Self {
        Self {
            role: Role::Standalone,
            max_wire_version: 21,
            limit: PROTOCOL_LIMIT,
            users: BTreeMap::new(),
            store: Store::new(),
        }
    }

    /// Sets the role; default a standalone.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Sets the wire version; default 21 (MongoDB 7.0).
    #[must_use]
    pub fn max_wire_version(mut self, version: i32) -> Self {
        self.max_wire_version = version;
        self
    }

    /// Sets the maximum message length; default 8 MiB.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Adds a user. With users, commands require authentication.
    ///
    /// # Errors
    ///
    /// [`ScramError::Password`] for a password that is not printable ASCII.
    pub fn user(mut self, name: &str, password: &str) -> Result<Self, ScramError> {
        let salt: [u8; 16] = rand::random();
        let salted = Salted::derive(RULES, password, &salt, RULES.min_iterations)?;
        self.users.insert(name.to_owned(), Stored::of(&salted));
        Ok(self)
    }

    /// Sets the documents; default a new empty store.
    #[must_use]
    pub fn store(mut self, store: &Store) -> Self {
        self.store = store.clone();
        self
    }

    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The error of binding the socket.
    pub async fn start(self) -> io::Result<Node> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
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
            cursors: Mutex::default(),
            seen: watch::Sender::default(),
            connections: AtomicU64::new(0),
            messages: AtomicI32::new(1),
            refuse: AtomicU64::new(0),
            closer: watch::Sender::new(()),
        });
        let task = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        Ok(Node {
            addr,
            shared,
            task: Mutex::new(Some(task)),
        })
    }
}
