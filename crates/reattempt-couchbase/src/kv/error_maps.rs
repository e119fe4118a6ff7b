//! The error maps of all nodes, for a strategy that is shared by all calls.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use reattempt::Backend;

use super::ErrorMap;

/// The error maps of a cluster, one per node (RFC 0013, Getting the Error Map). Clones share them.
///
/// A connection that has got its node's map puts it in under the name that it also reports with
/// `Reporter::backend`.
#[derive(Clone, Debug, Default)]
pub struct ErrorMaps(Arc<Maps>);

#[derive(Debug, Default)]
struct Maps {
    everywhere: Option<Arc<ErrorMap>>,
    nodes: RwLock<HashMap<Backend, Arc<ErrorMap>>>,
}

impl ErrorMaps {
    /// No maps yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One map for every node that has none of its own, also for attempts whose node is not known.
    #[must_use]
    pub fn everywhere(map: impl Into<Arc<ErrorMap>>) -> Self {
        Self(Arc::new(Maps {
            everywhere: Some(map.into()),
            nodes: RwLock::default(),
        }))
    }

    /// The map that this node has sent; replaces an earlier one, also by a lower revision: the node
    /// has spoken.
    pub fn insert(&self, node: Backend, map: impl Into<Arc<ErrorMap>>) {
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node, map.into());
    }

    /// Forgets a node.
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
