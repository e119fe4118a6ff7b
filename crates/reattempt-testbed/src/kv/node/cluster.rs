//! Several nodes that share documents and one configuration.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reattempt_clients::kv::vbucket_of;

use super::Node;
use super::shared::Shared;
use super::store::Store;

/// A cluster of scripted nodes. Dropping it ends them all.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    nodes: Vec<Node>,
}

impl Cluster {
    pub(super) fn new(shared: Arc<Shared>, nodes: Vec<Node>) -> Self {
        Self { shared, nodes }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this index in the configuration.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// The addresses of the nodes.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Node::addr).collect()
    }

    /// The documents of all nodes.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The current epoch and revision.
    pub fn revision(&self) -> (i64, i64) {
        self.shared.revision()
    }

    /// The vbucket of a key.
    pub fn vbucket_of(&self, key: &[u8]) -> u16 {
        vbucket_of(key, self.shared.config().owners.len())
    }

    /// The index of the node that owns a key; `None` when it has no owner.
    pub fn owner_of(&self, key: &[u8]) -> Option<usize> {
        let vbucket = self.vbucket_of(key);
        let owner = self
            .shared
            .config()
            .owners
            .get(usize::from(vbucket))
            .copied()?;
        usize::try_from(owner).ok()
    }

    /// A key that `node` owns, with this prefix; `None` when the node owns no vbucket.
    pub fn key_of(&self, node: usize, prefix: &str) -> Option<String> {
        (0..100_000)
            .map(|n| format!("{prefix}{n}"))
            .find(|key| self.owner_of(key.as_bytes()) == Some(node))
    }

    /// Moves every vbucket of `from` to `to`, with a new revision.
    pub fn move_vbuckets(&self, from: usize, to: usize) {
        self.change_owners(|_, owner| {
            if usize::try_from(*owner) == Ok(from) {
                *owner = to as i16;
            }
        });
    }

    /// Moves one vbucket to `to`, or to no node with `None`, with a new revision.
    pub fn move_vbucket(&self, vbucket: u16, to: Option<usize>) {
        self.change_owners(|index, owner| {
            if index == usize::from(vbucket) {
                *owner = to.map_or(-1, |to| to as i16);
            }
        });
    }

    /// Announces that every vbucket of `from` will go to `to`: a new revision with a fast-forward
    /// map.
    pub fn begin_rebalance(&self, from: usize, to: usize) {
        let mut config = self.shared.config();
        let later = |owner: &i16| {
            if usize::try_from(*owner) == Ok(from) {
                to as i16
            } else {
                *owner
            }
        };
        config.forward = Some(config.owners.iter().map(later).collect());
        config.rev += 1;
    }

    /// The nodes serve by the fast-forward map from now on; the configuration is unchanged.
    pub fn hand_over(&self) {
        self.shared.config().handed_over = true;
    }

    /// The fast-forward map takes effect: a new revision without a fast-forward map.
    pub fn end_rebalance(&self) {
        let mut config = self.shared.config();
        if let Some(forward) = config.forward.take() {
            config.owners = forward;
        }
        config.handed_over = false;
        config.rev += 1;
    }

    fn change_owners(&self, change: impl Fn(usize, &mut i16)) {
        let mut config = self.shared.config();
        config
            .owners
            .iter_mut()
            .enumerate()
            .for_each(|(index, owner)| change(index, owner));
        config.rev += 1;
    }

    /// A new revision without other changes.
    pub fn bump_rev(&self) {
        self.shared.config().rev += 1;
    }

    /// Sets the epoch and revision sent from now on; they may be older.
    pub fn set_revision(&self, epoch: i64, rev: i64) {
        let mut config = self.shared.config();
        (config.epoch, config.rev) = (epoch, rev);
    }

    /// Stops a node and drops its connections; the configuration is unchanged.
    pub async fn kill(&self, node: usize) {
        self.node(node).stop().await;
    }

    /// Restarts a stopped node at its address.
    pub async fn restart(&self, node: usize) -> io::Result<()> {
        self.node(node).restart().await
    }

    /// Stops a node and distributes its vbuckets among the running nodes, with a new revision.
    pub async fn fail_over(&self, node: usize) {
        self.kill(node).await;
        let left: Vec<i16> = (0..self.nodes.len())
            .filter(|index| self.nodes[*index].is_running())
            .map(|index| index as i16)
            .collect();
        self.change_owners(|index, owner| {
            if usize::try_from(*owner) == Ok(node) {
                *owner = if left.is_empty() {
                    -1
                } else {
                    left[index % left.len()]
                };
            }
        });
    }
}
