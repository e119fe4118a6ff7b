//! Several nodes that form one replica set.

use std::io;
use std::sync::Mutex;

use super::{Membership, Node, NodeBuilder, Role, Store};
use crate::lock::lock;

/// A replica set on loopback: one store, one primary. Dropping it ends it.
#[derive(Debug)]
pub struct ReplicaSet {
    nodes: Vec<Node>,
    reign: Mutex<Reign>,
}

#[derive(Debug)]
struct Reign {
    primary: Option<usize>,
    term: u32,
}

impl ReplicaSet {
    /// The set name of every set here.
    pub const NAME: &'static str = "rs0";

    /// Starts `members` nodes; the first is the primary.
    ///
    /// # Errors
    ///
    /// The error of binding a socket.
    pub async fn start(members: usize) -> io::Result<Self> {
        Self::start_with(members, Node::builder()).await
    }

    /// Starts `members` nodes configured by `builder`, except for the role.
    ///
    /// # Errors
    ///
    /// The error of binding a socket.
    pub async fn start_with(members: usize, builder: NodeBuilder) -> io::Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..members {
            nodes.push(builder.clone().role(Role::Secondary).start().await?);
        }
        let set = Self {
            nodes,
            reign: Mutex::new(Reign {
                primary: None,
                term: 0,
            }),
        };
        set.elect((members > 0).then_some(0));
        Ok(set)
    }

    /// The members, in start order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The documents of the set.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.nodes.first().map(Node::store)
    }

    /// The index of the primary.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        lock(&self.reign).primary
    }

    /// A connection string with all members and the set name.
    #[must_use]
    pub fn uri(&self) -> String {
        let hosts: Vec<&str> = self.nodes.iter().map(Node::address).collect();
        format!("mongodb://{}/?replicaSet={}", hosts.join(","), Self::NAME)
    }

    /// Makes this member the primary and all others secondaries; with `None` the set has no
    /// primary.
    pub fn elect(&self, primary: Option<usize>) {
        let term = {
            let mut reign = lock(&self.reign);
            reign.primary = primary;
            reign.term += 1;
            reign.term
        };
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.address().to_owned())
            .collect();
        let address = primary.and_then(|index| hosts.get(index)).cloned();
        for (index, node) in self.nodes.iter().enumerate() {
            node.set_membership(Membership {
                set_name: Self::NAME.to_owned(),
                hosts: hosts.clone(),
                primary: address.clone(),
                term,
            });
            node.set_role(if primary == Some(index) {
                Role::Primary
            } else {
                Role::Secondary
            });
        }
    }

    /// Makes the next running member the primary; `None` when there is no other.
    ///
    /// The old primary stays connected but refuses from now on: writes with 10107, reads without
    /// secondaryOk with 13435.
    pub fn step_down(&self) -> Option<usize> {
        let old = self.primary();
        let count = self.nodes.len();
        let after = old.map_or(0, |index| index + 1);
        let next = (0..count)
            .map(|step| (after + step) % count)
            .find(|index| Some(*index) != old && self.nodes[*index].is_running());
        self.elect(next);
        next
    }

    /// Stops a member. No new primary is elected until the test does so.
    pub async fn kill(&self, index: usize) {
        if let Some(node) = self.nodes.get(index) {
            node.stop().await;
        }
    }

    /// Restarts a stopped member at its address.
    ///
    /// # Errors
    ///
    /// The error of binding the socket.
    pub async fn restart(&self, index: usize) -> io::Result<()> {
        match self.nodes.get(index) {
            Some(node) => node.restart().await,
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no member {index}"),
            )),
        }
    }
}
