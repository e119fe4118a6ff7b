//! State shared by the nodes of a cluster: settings, documents, collections and the configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use serde_json::{Value, json};

use reattempt_clients::kv::sasl::Mechanism;
use reattempt_couchbase::kv::Status;

use super::store::Store;
use crate::lock::lock;

/// Settings that are constant while nodes run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) bucket: String,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) require_auth: bool,
    pub(super) mechanisms: Vec<Mechanism>,
    pub(super) features: Vec<u16>,
    pub(super) error_map: Option<Bytes>,
    pub(super) host_placeholder: bool,
    pub(super) max_body: usize,
}

/// State shared by the nodes of one cluster.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) store: Store,
    collections: Mutex<Collections>,
    config: Mutex<ClusterState>,
}

#[derive(Debug)]
struct Collections {
    manifest: u64,
    ids: BTreeMap<String, u32>,
}

/// The configuration sent by every node of the cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterState {
    pub(super) epoch: i64,
    pub(super) rev: i64,
    pub(super) nodes: Vec<SocketAddr>,
    /// The owner of each vbucket; -1 for none.
    pub(super) owners: Vec<i16>,
    /// The owners after the rebalance, while one is in progress.
    pub(super) forward: Option<Vec<i16>>,
    /// Whether the nodes already serve by `forward`, although the configuration is unchanged.
    pub(super) handed_over: bool,
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        store: Store,
        collections: BTreeMap<String, u32>,
        state: ClusterState,
    ) -> Self {
        Self {
            settings,
            store,
            collections: Mutex::new(Collections {
                manifest: 1,
                ids: collections,
            }),
            config: Mutex::new(state),
        }
    }

    pub(super) fn config(&self) -> MutexGuard<'_, ClusterState> {
        lock(&self.config)
    }

    fn collections(&self) -> MutexGuard<'_, Collections> {
        lock(&self.collections)
    }

    /// Assigns `scope.collection` an id; `None` removes it.
    pub(super) fn set_collection(&self, path: &str, id: Option<u32>) {
        let mut collections = self.collections();
        collections.manifest += 1;
        match id {
            Some(id) => collections.ids.insert(path.to_owned(), id),
            None => collections.ids.remove(path),
        };
    }

    pub(super) fn knows_collection(&self, id: u32) -> Result<(), Status> {
        if id == 0 || self.collections().ids.values().any(|known| *known == id) {
            return Ok(());
        }
        Err(Status::UNKNOWN_COLLECTION)
    }

    /// Manifest and id of `scope.collection`; empty names are the defaults.
    pub(super) fn collection(&self, path: &str) -> Result<(u64, u32), Status> {
        let (scope, name) = path.split_once('.').ok_or(Status::EINVAL)?;
        let or_default = |name: &'_ str| if name.is_empty() { "_default" } else { name }.to_owned();
        let (scope, name) = (or_default(scope), or_default(name));
        let collections = self.collections();
        if scope == "_default" && name == "_default" {
            return Ok((collections.manifest, 0));
        }
        if let Some(id) = collections.ids.get(&format!("{scope}.{name}")) {
            return Ok((collections.manifest, *id));
        }
        let prefix = format!("{scope}.");
        if scope == "_default" || collections.ids.keys().any(|path| path.starts_with(&prefix)) {
            return Err(Status::UNKNOWN_COLLECTION);
        }
        Err(Status::UNKNOWN_SCOPE)
    }

    pub(super) fn revision(&self) -> (i64, i64) {
        let config = self.config();
        (config.epoch, config.rev)
    }

    pub(super) fn owns(&self, node: usize, vbucket: u16) -> bool {
        let config = self.config();
        let owners = match &config.forward {
            Some(forward) if config.handed_over => forward,
            _ => &config.owners,
        };
        let owner = owners.get(usize::from(vbucket)).copied();
        owner.is_some_and(|owner| usize::try_from(owner) == Ok(node))
    }

    /// The configuration as sent by `node`: of the bucket, or of the cluster without one.
    pub(super) fn config_json(&self, node: usize, bucket: bool) -> Bytes {
        let state = self.config().clone();
        let host = |address: &SocketAddr| {
            if self.settings.host_placeholder {
                "$HOST".to_owned()
            } else {
                address.ip().to_string()
            }
        };
        let nodes_ext: Vec<Value> = state
            .nodes
            .iter()
            .enumerate()
            .map(|(index, address)| {
                let mut entry = json!({"services": {"kv": address.port()}});
                if !self.settings.host_placeholder {
                    entry["hostname"] = host(address).into();
                }
                if index == node {
                    entry["thisNode"] = true.into();
                }
                entry
            })
            .collect();
        let mut config = json!({
            "rev": state.rev,
            "revEpoch": state.epoch,
            "nodesExt": nodes_ext,
            "clusterCapabilitiesVer": [1, 0],
            "clusterCapabilities": {},
        });
        if bucket {
            let servers: Vec<String> = state
                .nodes
                .iter()
                .map(|address| format!("{}:{}", host(address), address.port()))
                .collect();
            let map: Vec<[i16; 1]> = state.owners.iter().map(|owner| [*owner]).collect();
            config["name"] = self.settings.bucket.as_str().into();
            config["bucketType"] = "membase".into();
            config["nodeLocator"] = "vbucket".into();
            config["uuid"] = "00000000000000000000000000000001".into();
            config["bucketCapabilities"] = json!(["collections", "cccp", "nodesExt", "cbhello"]);
            config["collectionsManifestUid"] = format!("{:x}", self.collections().manifest).into();
            config["nodes"] = servers
                .iter()
                .map(|server| json!({"hostname": server}))
                .collect();
            config["vBucketServerMap"] = json!({
                "hashAlgorithm": "CRC",
                "numReplicas": 0,
                "serverList": servers,
                "vBucketMap": map,
            });
            if let Some(forward) = &state.forward {
                let forward: Vec<[i16; 1]> = forward.iter().map(|owner| [*owner]).collect();
                config["vBucketServerMap"]["vBucketMapForward"] = json!(forward);
            }
        }
        config.to_string().into()
    }
}
