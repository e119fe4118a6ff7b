//! The ids of collections that a client knows, and the lookups that are under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::client::{ClientError, KvResponse};

/// The ids of collections by `scope.collection`. Clones share them, and the lookups that are under
/// way.
#[derive(Clone, Debug, Default)]
pub struct CollectionIds(Arc<Mutex<HashMap<Arc<str>, Entry>>>);

#[derive(Debug)]
enum Entry {
    Known(u32),
    /// Somebody is looking it up, unless the sender of this is gone.
    LookedUp(watch::Receiver<Found>),
}

/// What came of a lookup: an id, or what stands for the request that was not sent. `None` while it
/// is under way.
pub(super) type Found = Option<Result<u32, Box<Result<KvResponse, ClientError>>>>;

/// What to do for an id.
pub(super) enum Need {
    Nothing(u32),
    Wait(watch::Receiver<Found>),
    LookUp(watch::Sender<Found>),
}

impl CollectionIds {
    /// None known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The id that is known.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<u32> {
        match self.ids().get(path) {
            Some(Entry::Known(id)) => Some(*id),
            _ => None,
        }
    }

    /// One looks it up, all others wait for that.
    pub(super) fn need(&self, path: &Arc<str>) -> Need {
        let mut ids = self.ids();
        match ids.get(path) {
            Some(Entry::Known(id)) => return Need::Nothing(*id),
            // Who left without a word has been dropped.
            Some(Entry::LookedUp(found)) if found.has_changed().is_ok() => {
                return Need::Wait(found.clone());
            }
            _ => {}
        }
        let (sender, found) = watch::channel(None);
        ids.insert(Arc::clone(path), Entry::LookedUp(found));
        Need::LookUp(sender)
    }

    pub(super) fn found(&self, path: &Arc<str>, sender: &watch::Sender<Found>, found: Found) {
        let mut ids = self.ids();
        match &found {
            Some(Ok(id)) => ids.insert(Arc::clone(path), Entry::Known(*id)),
            _ => ids.remove(path),
        };
        // Under the lock, so that who comes after it begins anew.
        sender.send_replace(found);
    }

    /// Forgets this id, unless somebody has looked it up anew meanwhile.
    pub(super) fn outdated(&self, path: &str, id: u32) {
        let mut ids = self.ids();
        if matches!(ids.get(path), Some(Entry::Known(known)) if *known == id) {
            ids.remove(path);
        }
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
