//! The error maps of all nodes, for a strategy shared by all calls.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use reattempt::Backend;

use super::ErrorMap;

/// The error maps of a cluster, one per node (RFC 0013, Getting the Error Map). Clones share them.
///
/// A connection that has received its node's map inserts it under the name that it also reports
/// with `AttemptReporter::backend`.
#[derive(Clone, Debug, Default)]
pub struct ErrorMaps(Arc<Maps>);

#[derive(Debug, Default)]
struct Maps {
    everywhere: Option<Arc<ErrorMap>>,
    nodes: RwLock<HashMap<Backend, Arc<ErrorMap>>>,
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
    /// do, so that the name of a node that left the cluster takes little memory.
    pub fn insert(&self, node: Backend, map: impl Into<Arc<ErrorMap>>) {
        let map = map.into();
        // Compared before the lock is taken that keeps calls from their maps.
        let nodes = self.0.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let equal = nodes.values().find(|kept| **kept == map).cloned();
        drop(nodes);
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node, equal.unwrap_or(map));
    }

    /// Removes a node's map.
    pub fn remove(&self, node: &Backend) {
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.remove(node);
    }

    /// The map of this node.
    #[must_use]
    pub fn of(&self, node: Option<&Backend>) -> Option<Arc<ErrorMap>> {
        let nodes = self.0.nodes.read().unwrap_or_else(PoisonError::into_inner);
        node.and_then(|node| nodes.get(node))
            .or(self.0.everywhere.as_ref())
            .cloned()
    }
}
