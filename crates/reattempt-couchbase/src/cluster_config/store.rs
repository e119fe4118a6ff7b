//! The configuration in force.

use std::cmp::Ordering;
use std::sync::Arc;

use tokio::sync::watch;

use super::{ClusterConfig, Revision};

/// What became of a configuration that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is newer, and in force now.
    Newer,
    /// The one in force is as new or newer.
    NotNewer,
    /// The one in force is of a bucket, and this one is of another bucket or of none.
    OtherBucket,
}

/// The configuration in force of one bucket, or of a cluster. Clones share it.
///
/// Every configuration, wherever it came from, is offered to [`ConfigStore::compare_and_swap`], and
/// only one with a strictly greater `(epoch, rev)` gets in (RFC 0024, General Design).
#[derive(Clone, Debug)]
pub struct ConfigStore(Arc<watch::Sender<Option<Arc<ClusterConfig>>>>);

impl ConfigStore {
    /// A store with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// The configuration in force: a read lock and a reference count.
    #[must_use]
    pub fn load(&self) -> Option<Arc<ClusterConfig>> {
        self.0.borrow().clone()
    }

    /// The revision in force.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.0.borrow().as_ref().map(|config| config.revision())
    }

    /// Puts a configuration in force if it is newer than what is there, in one step, and then wakes
    /// all watchers.
    ///
    /// The first one always gets in. Under a bucket's configuration none of another bucket, or of
    /// no bucket, gets in.
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
                // A bucket's configuration knows more than the cluster's own of the same revision.
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

    /// Sees every change from now on.
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
