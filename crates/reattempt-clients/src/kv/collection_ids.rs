//! The known collection ids, and the lookups in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{ClientError, KvResponse};
use crate::lock::lock;

/// Collection ids by `scope.collection`. Clones share the ids and the lookups in progress.
#[derive(Clone, Debug, Default)]
pub struct CollectionIds(Arc<Mutex<HashMap<Arc<str>, Entry>>>);

#[derive(Debug)]
enum Entry {
    Known {
        id: u32,
        /// When its lookup began.
        since: Instant,
    },
    /// A lookup is in progress, unless the sender was dropped.
    LookedUp {
        found: watch::Receiver<Found>,
        since: Instant,
    },
}

/// How long requests wait for the lookup of another one. Its node may be silent, and its deadline
/// far: then one of them looks the id up at another node, and the rest wait for that. If all did,
/// a silent node would cause as many lookups as requests.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The result of a lookup: an id, or the outcome of the request that was not sent. `None` while the
/// lookup is in progress.
pub(super) type Found = Option<Result<u32, Box<Result<KvResponse, ClientError>>>>;

/// How to obtain an id.
pub(super) enum Need {
    Nothing(u32),
    Wait(watch::Receiver<Found>),
    /// With the instant at which the lookup begins.
    LookUp(watch::Sender<Found>, Instant),
}

impl CollectionIds {
    /// Creates an empty set of ids.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The id, if it is known.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<u32> {
        match self.ids().get(path) {
            Some(Entry::Known { id, .. }) => Some(*id),
            _ => None,
        }
    }

    /// The first caller looks the id up, the others wait for its result.
    pub(super) fn need(&self, path: &Arc<str>) -> Need {
        let mut ids = self.ids();
        match ids.get(path) {
            Some(Entry::Known { id, .. }) => return Need::Nothing(*id),
            // A lookup that ended without a result has dropped its sender.
            Some(Entry::LookedUp { found, since })
                if found.has_changed().is_ok() && since.elapsed() < LONGEST_WAIT =>
            {
                return Need::Wait(found.clone());
            }
            _ => {}
        }
        let (sender, found) = watch::channel(None);
        let since = Instant::now();
        ids.insert(Arc::clone(path), Entry::LookedUp { found, since });
        Need::LookUp(sender, since)
    }

    /// The result of the lookup that began at `since`.
    pub(super) fn found(
        &self,
        path: &Arc<str>,
        (sender, since): (&watch::Sender<Found>, Instant),
        found: Found,
    ) {
        let mut ids = self.ids();
        let is_own = |entry: &Entry| match entry {
            Entry::LookedUp { found, .. } => found.same_channel(&sender.subscribe()),
            Entry::Known { .. } => false,
        };
        match (&found, ids.get(path)) {
            // A later lookup was faster: what this one found is older.
            (Some(Ok(_)), Some(Entry::Known { since: known, .. })) if *known > since => {}
            (Some(Ok(id)), _) => {
                let known = Entry::Known { id: *id, since };
                drop(ids.insert(Arc::clone(path), known));
            }
            (_, Some(entry)) if is_own(entry) => drop(ids.remove(path)),
            _ => {}
        }
        // Sent under the lock, so that later callers start a new lookup.
        sender.send_replace(found);
    }

    /// Removes this id, unless a new lookup has replaced it.
    pub(super) fn outdated(&self, path: &str, id: u32) {
        let mut ids = self.ids();
        if matches!(ids.get(path), Some(Entry::Known { id: known, .. }) if *known == id) {
            ids.remove(path);
        }
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(ids: &CollectionIds, path: &Arc<str>) -> (watch::Sender<Found>, Instant) {
        match ids.need(path) {
            Need::LookUp(sender, since) => (sender, since),
            Need::Nothing(_) | Need::Wait(_) => panic!("it is not looked up"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_lookups_the_one_that_began_later_counts() {
        for first_is_late in [true, false] {
            let (ids, path) = (CollectionIds::new(), Arc::from("s.c"));
            let first = begin(&ids, &path);
            tokio::time::advance(LONGEST_WAIT).await;
            let second = begin(&ids, &path);
            let mut ends = [(&first, 7), (&second, 9)];
            if first_is_late {
                ends.reverse();
            }
            for (lookup, id) in ends {
                ids.found(&path, (&lookup.0, lookup.1), Some(Ok(id)));
            }
            assert_eq!(ids.get(&path), Some(9), "late: {first_is_late}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_failed_late_leaves_the_later_one() {
        let (ids, path) = (CollectionIds::new(), Arc::from("s.c"));
        let first = begin(&ids, &path);
        tokio::time::advance(LONGEST_WAIT).await;
        let _second = begin(&ids, &path);
        ids.found(&path, (&first.0, first.1), None);
        assert!(matches!(ids.need(&path), Need::Wait(_)));
    }
}
