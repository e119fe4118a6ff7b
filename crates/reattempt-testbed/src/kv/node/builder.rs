//! The configuration of a node or a cluster.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use reattempt_clients::kv::frame::DEFAULT_MAX_BODY;
use reattempt_clients::kv::sasl::Mechanism;

use super::Node;
use super::cluster::Cluster;
use super::inner::Handler;
use super::running;
use super::seen::SeenRequest;
use super::session::FEATURES;
use super::shared::{ClusterState, Settings, Shared};
use super::step::{Script, Step};
use super::store::Store;

/// The default error map: a small one in the format of version 2.
pub const DEFAULT_ERROR_MAP: &str = r#"{"version":2,"revision":1,"errors":{
"0":{"name":"SUCCESS","desc":"Success","attrs":["success"]},
"1":{"name":"KEY_ENOENT","desc":"Not found","attrs":["item-only"]},
"7":{"name":"NOT_MY_VBUCKET","desc":"Not my vbucket","attrs":["fetch-config","invalid-input"]},
"9":{"name":"LOCKED","desc":"Locked","attrs":["item-locked","item-only","retry-now"]},
"82":{"name":"ENOMEM","desc":"No memory","attrs":["temp","retry-later"]},
"86":{"name":"ETMPFAIL","desc":"Temporary failure","attrs":["temp","retry-now"]},
"ff01":{"name":"TEST_RETRY_NOW","desc":"Retry at once","attrs":["temp","retry-now"]},
"ff02":{"name":"TEST_RETRY_LATER","desc":"Retry later","attrs":["temp","retry-later"]},
"ff03":{"name":"TEST_FINAL","desc":"Final","attrs":["item-only"]}}}"#;

/// Configures a [`Node`] or a [`Cluster`].
pub struct NodeBuilder {
    settings: Settings,
    script: Script,
    handler: Option<Handler>,
    bootstrap_handler: Option<Handler>,
    store: Store,
    collections: BTreeMap<String, u32>,
    vbuckets: usize,
    revision: (i64, i64),
}

impl std::fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Default for NodeBuilder {
    fn default() -> Self {
        Self {
            settings: Settings {
                bucket: "default".to_owned(),
                username: "Administrator".to_owned(),
                password: "password".to_owned(),
                require_auth: false,
                mechanisms: Mechanism::BY_STRENGTH.to_vec(),
                features: FEATURES.to_vec(),
                error_map: Some(Bytes::from_static(DEFAULT_ERROR_MAP.as_bytes())),
                host_placeholder: false,
                max_body: DEFAULT_MAX_BODY,
            },
            script: Script::default(),
            handler: None,
            bootstrap_handler: None,
            store: Store::new(),
            collections: BTreeMap::new(),
            vbuckets: 64,
            revision: (1, 1),
        }
    }
}

impl Node {
    /// Creates a builder.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Starts a node with all defaults.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// Starts a node with a script.
    pub async fn scripted(steps: impl IntoIterator<Item = Step>) -> io::Result<Self> {
        Self::builder().script(Script::new(steps)).start().await
    }
}

impl Cluster {
    /// Creates a builder; finish with [`NodeBuilder::start_cluster`].
    pub fn builder() -> NodeBuilder {
        Node::builder()
    }

    /// Starts `count` nodes with all defaults.
    pub async fn start(count: usize) -> io::Result<Self> {
        Self::builder().start_cluster(count).await
    }
}

impl NodeBuilder {
    /// Sets the script. In a cluster every node starts with its own empty script instead.
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// Sets a handler for data requests without a script step; `None` executes the request.
    pub fn handler(
        mut self,
        handler: impl Fn(&SeenRequest) -> Option<Step> + Send + Sync + 'static,
    ) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Sets a handler for bootstrap requests.
    pub fn bootstrap_handler(
        mut self,
        handler: impl Fn(&SeenRequest) -> Option<Step> + Send + Sync + 'static,
    ) -> Self {
        self.bootstrap_handler = Some(Arc::new(handler));
        self
    }

    /// Sets the error map, sent unchanged even when it is not JSON. Default: [`DEFAULT_ERROR_MAP`].
    pub fn error_map(mut self, json: impl Into<Bytes>) -> Self {
        self.settings.error_map = Some(json.into());
        self
    }

    /// Makes GET_ERROR_MAP an unknown command.
    pub fn no_error_map(mut self) -> Self {
        self.settings.error_map = None;
        self
    }

    /// Sets the only user. Default: `Administrator` with `password`.
    pub fn credentials(mut self, username: &str, password: &str) -> Self {
        self.settings.username = username.to_owned();
        self.settings.password = password.to_owned();
        self
    }

    /// Refuses data requests without login and bucket. Default: no login is required.
    pub fn require_auth(mut self) -> Self {
        self.settings.require_auth = true;
        self
    }

    /// Sets the offered SASL mechanisms. Default: all.
    pub fn mechanisms(mut self, mechanisms: &[Mechanism]) -> Self {
        self.settings.mechanisms = mechanisms.to_vec();
        self
    }

    /// Sets the name of the only bucket. Default: `default`.
    pub fn bucket(mut self, name: &str) -> Self {
        self.settings.bucket = name.to_owned();
        self
    }

    /// Sets the HELLO features granted on request. Default: all that the node implements.
    pub fn features(mut self, features: &[u16]) -> Self {
        self.settings.features = features.to_vec();
        self
    }

    /// Writes `$HOST` for the host in configurations, as single nodes do.
    pub fn host_placeholder(mut self) -> Self {
        self.settings.host_placeholder = true;
        self
    }

    /// Sets the number of vbuckets, at least 1. Default: 64.
    pub fn vbuckets(mut self, count: u16) -> Self {
        self.vbuckets = usize::from(count.max(1));
        self
    }

    /// Sets epoch and revision of the first configuration. Default: 1 and 1.
    pub fn revision(mut self, epoch: i64, rev: i64) -> Self {
        self.revision = (epoch, rev);
        self
    }

    /// Adds a collection, by `scope.collection`.
    pub fn collection(mut self, path: &str, id: u32) -> Self {
        self.collections.insert(path.to_owned(), id);
        self
    }

    /// Sets the documents. Default: none.
    pub fn store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// Starts one node that owns every vbucket, on a free port of 127.0.0.1.
    pub async fn start(self) -> io::Result<Node> {
        let script = self.script.clone();
        let mut nodes = self.start_nodes(1, |_| script.clone())?.1;
        Ok(nodes.remove(0))
    }

    /// Starts `count` nodes (at least 1) that share documents and configuration; vbuckets are
    /// assigned in turn.
    pub async fn start_cluster(self, count: usize) -> io::Result<Cluster> {
        let (shared, nodes) = self.start_nodes(count.max(1), |_| Script::default())?;
        Ok(Cluster::new(shared, nodes))
    }

    fn start_nodes(
        self,
        count: usize,
        script: impl Fn(usize) -> Script,
    ) -> io::Result<(Arc<Shared>, Vec<Node>)> {
        let mut sockets = Vec::with_capacity(count);
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            let (socket, address) = running::reserve()?;
            addresses.push(address);
            sockets.push(socket);
        }
        let state = ClusterState {
            epoch: self.revision.0,
            rev: self.revision.1,
            nodes: addresses,
            owners: (0..self.vbuckets)
                .map(|vbucket| (vbucket % count) as i16)
                .collect(),
            forward: None,
            handed_over: false,
        };
        let shared = Arc::new(Shared::new(
            self.settings,
            self.store,
            self.collections,
            state,
        ));
        let handlers = (self.handler, self.bootstrap_handler);
        let mut nodes = Vec::with_capacity(count);
        for (index, reserved) in sockets.into_iter().enumerate() {
            nodes.push(Node::launch(
                index,
                reserved,
                shared.clone(),
                script(index),
                handlers.clone(),
            )?);
        }
        Ok((shared, nodes))
    }
}
