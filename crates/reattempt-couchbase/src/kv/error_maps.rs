//! The error maps of all nodes, for a strategy shared by all calls.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use reattempt::Backend;

use super::ErrorMap;

/// The most nodes of which a map is kept: more than clusters have. Servers name their nodes, and
/// could make up new names without end.
const MAX_NODES: usize = 256;

/// The error maps of a cluster, one per node (RFC 0013, Getting the Error Map). Clones share them.
///
/// The maps of the 256 nodes that were inserted last are kept.
///
/// A connection that has received its node's map inserts it under the name that it also reports
/// with `AttemptReporter::backend`.
#[derive(Clone, Debug, Default)]
pub struct ErrorMaps(Arc<Maps>);

#[derive(Debug, Default)]
struct Maps {
    everywhere: Option<Arc<ErrorMap>>,
    nodes: RwLock<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes {
    /// Each with the number of its insertion.
    maps: HashMap<Backend, (u64, Arc<ErrorMap>)>,
    insertions: u64,
}

impl Nodes {
    fn insert(&mut self, node: Backend, map: Arc<ErrorMap>) {
        self.insertions += 1;
        self.maps.insert(node, (self.insertions, map));
        if self.maps.len() > MAX_NODES {
            let oldest = self.maps.iter().min_by_key(|(_, (inserted, _))| *inserted);
            if let Some(oldest) = oldest.map(|(node, _)| node.clone()) {
                self.maps.remove(&oldest);
            }
        }
    }
}

impl ErrorMaps {
    /// Creates it without maps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One map for every node without its own, and for attempts whose node is unknown.
    #[must_use]
    pub fn everywhere(map: impl Into<Arc<ErrorMap>>) -> Self {
        Self(Arc::new(Maps {
            everywhere: Some(map.into()),
            nodes: RwLock::default(),
        }))
    }

    /// Stores the map that this node sent. Replaces an earlier one, even by a lower revision: the
    /// node's latest map applies. Nodes with equal maps share one, as those of one server version
    /// do, so that the name of a node that left the cluster takes little memory. Beyond 256 nodes
    /// the map that was inserted first is dropped.
    pub fn insert(&self, node: Backend, map: impl Into<Arc<ErrorMap>>) {
        let map = map.into();
        // Compared before the lock is taken that keeps calls from their maps.
        let nodes = self.0.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let mut kept = nodes.maps.values().map(|(_, kept)| kept);
        let equal = kept.find(|kept| **kept == map).cloned();
        drop(nodes);
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node, equal.unwrap_or(map));
    }

    /// Removes a node's map.
    pub fn remove(&self, node: &Backend) {
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.maps.remove(node);
    }

    /// The map of this node.
    #[must_use]
    pub fn of(&self, node: Option<&Backend>) -> Option<Arc<ErrorMap>> {
        let nodes = self.0.nodes.read().unwrap_or_else(PoisonError::into_inner);
        node.and_then(|node| nodes.maps.get(node))
            .map(|(_, map)| map)
            .or(self.0.everywhere.as_ref())
            .cloned()
    }
}
