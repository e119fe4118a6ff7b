//! The documents of a node or cluster in memory: CAS, expiry and locks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use reattempt_couchbase::kv::Status;
use tokio::time::Instant;

use crate::lock::lock;

/// Expiry values up to this many seconds are relative, greater ones are Unix timestamps.
const RELATIVE_LIMIT: u32 = 30 * 24 * 3600;
/// The lock time, in seconds, when the client requests none or one above the maximum.
const DEFAULT_LOCK: u32 = 15;
/// The longest lock time, in seconds.
const MAX_LOCK: u32 = 30;
/// The CAS of a locked document as seen by readers.
const LOCKED_CAS: u64 = u64::MAX;

/// The documents. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Store(Arc<Mutex<Documents>>);

#[derive(Debug, Default)]
pub(super) struct Documents {
    documents: HashMap<(u32, Bytes), Document>,
    last_cas: u64,
}

/// One document.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) value: Bytes,
    pub(super) flags: u32,
    pub(super) datatype: u8,
    pub(super) cas: u64,
    expires: Option<Instant>,
    locked_until: Option<Instant>,
}

/// The effect of a write, depending on whether the document exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMode {
    Any,
    MustNotExist,
    MustExist,
}

impl Store {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a document to the default collection; returns its CAS.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> u64 {
        self.lock().store((0, key.into()), value.into(), 0, 0, None)
    }

    /// The value of a document of the default collection.
    pub fn get(&self, key: impl Into<Bytes>) -> Option<Bytes> {
        self.lock()
            .find(&(0, key.into()))
            .map(|document| document.value.clone())
    }

    /// The number of documents, including expired ones that were not accessed since.
    pub fn len(&self) -> usize {
        self.lock().documents.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Documents> {
        lock(&self.0)
    }
}

impl Documents {
    fn next_cas(&mut self) -> u64 {
        self.last_cas += 1;
        self.last_cas
    }

    /// The document, after expiry and lock timeout are applied.
    pub(super) fn find(&mut self, id: &(u32, Bytes)) -> Option<&mut Document> {
        let now = Instant::now();
        if self.documents.get(id)?.expires.is_some_and(|at| at <= now) {
            self.documents.remove(id);
            return None;
        }
        let document = self.documents.get_mut(id)?;
        if document.locked_until.is_some_and(|at| at <= now) {
            document.locked_until = None;
        }
        Some(document)
    }

    fn store(
        &mut self,
        id: (u32, Bytes),
        value: Bytes,
        flags: u32,
        datatype: u8,
        expires: Option<Instant>,
    ) -> u64 {
        let cas = self.next_cas();
        let document = Document {
            value,
            flags,
            datatype,
            cas,
            expires,
            locked_until: None,
        };
        self.documents.insert(id, document);
        cas
    }

    /// Whether a write with this CAS is allowed.
    fn may_write(&mut self, id: &(u32, Bytes), cas: u64) -> Result<(), Status> {
        match self.find(id) {
            None => Ok(()),
            Some(document) if document.is_locked() && cas != document.cas => Err(Status::LOCKED),
            Some(document) if cas != 0 && cas != document.cas => Err(Status::KEY_EEXISTS),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn write(
        &mut self,
        id: (u32, Bytes),
        cas: u64,
        mode: WriteMode,
        (value, datatype): (Bytes, u8),
        (flags, expiry): (u32, u32),
    ) -> Result<u64, Status> {
        let exists = self.find(&id).is_some();
        if exists && mode == WriteMode::MustNotExist {
            return Err(Status::KEY_EEXISTS);
        }
        if !exists && (mode == WriteMode::MustExist || cas != 0) {
            return Err(Status::KEY_ENOENT);
        }
        self.may_write(&id, cas)?;
        Ok(self.store(id, value, flags, datatype, expires_at(expiry)))
    }

    pub(super) fn delete(&mut self, id: &(u32, Bytes), cas: u64) -> Result<u64, Status> {
        self.find(id).ok_or(Status::KEY_ENOENT)?;
        self.may_write(id, cas)?;
        self.documents.remove(id);
        Ok(self.next_cas())
    }

    /// Replaces the value by the result of `change`; the CAS changes and the lock ends.
    pub(super) fn update<T>(
        &mut self,
        id: &(u32, Bytes),
        cas: u64,
        missing: Status,
        change: impl FnOnce(&Bytes) -> Result<(Bytes, T), Status>,
    ) -> Result<(u64, T), Status> {
        let old = self.find(id).ok_or(missing)?.value.clone();
        self.may_write(id, cas)?;
        let (value, result) = change(&old)?;
        let cas = self.next_cas();
        let document = self.find(id).ok_or(missing)?;
        document.value = value;
        document.cas = cas;
        document.locked_until = None;
        Ok((cas, result))
    }

    pub(super) fn touch(&mut self, id: &(u32, Bytes), expiry: u32) -> Result<Document, Status> {
        let cas = self.next_cas();
        let document = self.find(id).ok_or(Status::KEY_ENOENT)?;
        if document.is_locked() {
            return Err(Status::LOCKED);
        }
        document.expires = expires_at(expiry);
        document.cas = cas;
        Ok(document.clone())
    }

    pub(super) fn get_and_lock(
        &mut self,
        id: &(u32, Bytes),
        seconds: u32,
    ) -> Result<Document, Status> {
        let cas = self.next_cas();
        let seconds = if seconds == 0 || seconds > MAX_LOCK {
            DEFAULT_LOCK
        } else {
            seconds
        };
        let document = self.find(id).ok_or(Status::KEY_ENOENT)?;
        if document.is_locked() {
            return Err(Status::LOCKED);
        }
        document.cas = cas;
        document.locked_until = Some(Instant::now() + Duration::from_secs(u64::from(seconds)));
        Ok(document.clone())
    }

    pub(super) fn unlock(&mut self, id: &(u32, Bytes), cas: u64) -> Result<(), Status> {
        let document = self.find(id).ok_or(Status::KEY_ENOENT)?;
        if !document.is_locked() {
            return Err(Status::NOT_LOCKED);
        }
        if document.cas != cas {
            return Err(Status::LOCKED);
        }
        document.locked_until = None;
        Ok(())
    }
}

impl Document {
    fn is_locked(&self) -> bool {
        self.locked_until.is_some()
    }

    /// The CAS as seen by a reader.
    pub(super) fn visible_cas(&self) -> u64 {
        if self.is_locked() {
            LOCKED_CAS
        } else {
            self.cas
        }
    }
}

/// When a document with this expiry expires; `None` for never.
fn expires_at(expiry: u32) -> Option<Instant> {
    let seconds = match expiry {
        0 => return None,
        relative if relative <= RELATIVE_LIMIT => u64::from(relative),
        absolute => u64::from(absolute).saturating_sub(unix_seconds()),
    };
    Some(Instant::now() + Duration::from_secs(seconds))
}

/// The protocol uses Unix timestamps for distant expiry times, so this needs the wall clock.
#[allow(clippy::disallowed_methods)]
fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn expiry_and_locks_end_with_time() {
        let store = Store::new();
        let id = (0, Bytes::from_static(b"k"));
        store.put("k", "v");
        store.lock().get_and_lock(&id, 5).expect("lock");
        assert_eq!(store.lock().delete(&id, 0), Err(Status::LOCKED));
        tokio::time::advance(Duration::from_secs(5)).await;
        store.lock().touch(&id, 3).expect("the lock ended");
        tokio::time::advance(Duration::from_millis(2999)).await;
        assert!(store.get("k").is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(store.get("k").is_none() && store.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_far_expiry_is_a_time_of_the_unix_clock() {
        let store = Store::new();
        let id = (0, Bytes::from_static(b"k"));
        store.put("k", "v");
        store.lock().touch(&id, RELATIVE_LIMIT + 1).expect("touch");
        assert!(store.get("k").is_none(), "that was in 1970");
    }
}
