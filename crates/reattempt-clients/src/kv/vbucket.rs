//! Which vbucket a key belongs to, and which node owns it.

/// The vbucket of a key among `count` vbuckets (CRC32, as in every Couchbase client).
///
/// `count` 0 gives vbucket 0.
pub fn vbucket_of(key: &[u8], count: usize) -> u16 {
    let hash = (crc32fast::hash(key) >> 16) & 0x7fff;
    if count == 0 {
        return 0;
    }
    (hash as usize % count) as u16
}

/// The part of a cluster configuration that routing needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VbucketMap {
    /// The epoch of the revision, 0 when the configuration has none.
    pub rev_epoch: i64,
    /// The revision.
    pub rev: i64,
    /// The nodes, `host:port` each; empty for a node without key-value service.
    pub nodes: Vec<String>,
    /// For each vbucket the indexes of its nodes, the active one first, -1 for none.
    pub vbuckets: Vec<Vec<i16>>,
    /// The map after the rebalance; empty when none is in progress.
    pub forward: Vec<Vec<i16>>,
}

impl VbucketMap {
    /// The vbucket of a key.
    pub fn vbucket_of(&self, key: &[u8]) -> u16 {
        vbucket_of(key, self.vbuckets.len())
    }

    /// The node that owns a vbucket; `None` when it has no owner, or none that can be reached.
    pub fn node_of(&self, vbucket: u16) -> Option<&str> {
        self.active(&self.vbuckets, vbucket)
    }

    /// The owner of a vbucket after the rebalance; `None` when none is in progress.
    pub fn forward_node_of(&self, vbucket: u16) -> Option<&str> {
        self.active(&self.forward, vbucket)
    }

    /// The addresses of nodes with key-value service.
    pub fn addresses(&self) -> impl Iterator<Item = &str> + Clone {
        let nodes = self.nodes.iter().map(String::as_str);
        nodes.filter(|node| !node.is_empty())
    }

    /// A node with key-value service, chosen by `turn`; `None` if there is none.
    pub fn any_node(&self, turn: usize) -> Option<&str> {
        let at = turn.checked_rem(self.addresses().count())?;
        self.addresses().nth(at)
    }

    fn active(&self, copies: &[Vec<i16>], vbucket: u16) -> Option<&str> {
        let owner = *copies.get(usize::from(vbucket))?.first()?;
        let node = self.nodes.get(usize::try_from(owner).ok()?)?;
        // Without an address in the network of the map it cannot be reached.
        (!node.is_empty()).then_some(node)
    }
}
