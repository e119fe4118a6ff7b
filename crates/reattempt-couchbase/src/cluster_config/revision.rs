//! The order of configurations.

use std::fmt;

/// The revision of a configuration, ordered by epoch first.
///
/// A configuration without an epoch has epoch 0, so it is older than every one with an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision {
    /// Incremented by events that reset the revision, such as an unsafe failover (`revEpoch`).
    pub epoch: i64,
    /// Counts the changes within one epoch (`rev`).
    pub rev: i64,
}

impl Revision {
    /// A revision with this epoch and counter.
    #[must_use]
    pub const fn new(epoch: i64, rev: i64) -> Self {
        Self { epoch, rev }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.rev)
    }
}
