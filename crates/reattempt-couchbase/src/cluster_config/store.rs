//! The current configuration.

use std::cmp::Ordering;
use std::sync::Arc;

use tokio::sync::watch;

use super::{ClusterConfig, Revision};

/// The result of offering a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is newer, and is now the current one.
    Newer,
    /// The current one is as new or newer.
    NotNewer,
    /// The current one is of a bucket, and this one is of another bucket or of none.
    OtherBucket,
}

/// The current configuration of one bucket, or of a cluster. Clones share it.
///
/// Every configuration, from any source, is offered to [`ConfigStore::compare_and_swap`], which
/// accepts only one with a strictly greater `(epoch, rev)` (RFC 0024, General Design), or that of a
/// bucket in place of the cluster's own of the same revision, which contains less.
#[derive(Clone, Debug)]
pub struct ConfigStore(Arc<watch::Sender<Option<Arc<ClusterConfig>>>>);

impl ConfigStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// The current configuration. Costs a read lock and a reference count.
    #[must_use]
    pub fn load(&self) -> Option<Arc<ClusterConfig>> {
        self.0.borrow().clone()
    }

    /// The current revision.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.0.borrow().as_ref().map(|config| config.revision())
    }

    /// Replaces the current configuration atomically if this one is newer, and then wakes all
    /// watchers.
    ///
    /// The first one is always accepted. If the current one is of a bucket, one of another bucket
    /// or of no bucket is not accepted.
    pub fn compare_and_swap(&self, config: impl Into<Arc<ClusterConfig>>) -> Swapped {
        let offered = config.into();
        let mut swapped = Swapped::Newer;
        self.0.send_if_modified(|current| {
            if let Some(current) = current {
                let other = current.bucket().is_some() && current.bucket() != offered.bucket();
                if other {
                    swapped = Swapped::OtherBucket;
                    return false;
                }
                // A bucket's configuration contains more than the cluster's own of the same
                // revision.
                let gains_bucket = current.bucket().is_none() && offered.bucket().is_some();
                let newer = match offered.revision().cmp(&current.revision()) {
                    Ordering::Greater => true,
                    Ordering::Equal => gains_bucket,
                    Ordering::Less => false,
                };
                if !newer {
                    swapped = Swapped::NotNewer;
                    return false;
                }
            }
            *current = Some(Arc::clone(&offered));
            true
        });
        if swapped == Swapped::Newer {
            tracing::debug!(revision = %offered.revision(), "newer cluster configuration");
        }
        swapped
    }

    /// Receives every change from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<Arc<ClusterConfig>>> {
        self.0.subscribe()
    }
}

impl Default for ConfigStore {
    fn default() -> Self {
        Self::new()
    }
}
