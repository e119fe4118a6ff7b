//! For tests of a configuration that changes.

use super::{Answer, bucket};
use crate::{Address, ClusterConfig};

impl Answer {
    pub(crate) fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.value = value.into();
        self
    }
}

pub(crate) fn config(epoch: i64, rev: i64, nodes: usize, owner: usize) -> ClusterConfig {
    ClusterConfig::parse(bucket(epoch, rev, nodes, owner).as_bytes(), "").unwrap()
}

/// The address of node `n<number>` of [`bucket`].
pub(crate) fn node(number: usize) -> Address {
    Address::new(&format!("n{number}"), 11210)
}
