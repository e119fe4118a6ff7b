//! The list of recorded calls, and waiting for entries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::lock::lock;

/// A list of records in order of arrival, of which only the newest `bound` are kept.
pub(crate) struct Log<T> {
    records: Mutex<Records<T>>,
    changed: Notify,
    bound: usize,
}

struct Records<T> {
    /// The number of the first record that is still kept.
    first: usize,
    kept: VecDeque<T>,
}

impl<T> Log<T> {
    pub(crate) fn new(bound: usize) -> Self {
        let records = Records {
            first: 0,
            kept: VecDeque::new(),
        };
        Self {
            records: Mutex::new(records),
            changed: Notify::new(),
            bound: bound.max(1),
        }
    }

    /// Adds the record that `make` builds from its number, and returns the number.
    pub(crate) fn push(&self, make: impl FnOnce(usize) -> T) -> usize {
        let mut records = lock(&self.records);
        if records.kept.len() == self.bound {
            records.kept.pop_front();
            records.first += 1;
        }
        let number = records.first + records.kept.len();
        records.kept.push_back(make(number));
        drop(records);
        self.changed.notify_waiters();
        number
    }

    /// Reads or changes one record; `None` when it is no longer kept.
    pub(crate) fn with<R>(&self, number: usize, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut records = lock(&self.records);
        let place = number.checked_sub(records.first)?;
        let found = records.kept.get_mut(place).map(look);
        drop(records);
        self.changed.notify_waiters();
        found
    }

    pub(crate) fn total(&self) -> usize {
        let records = lock(&self.records);
        records.first + records.kept.len()
    }

    pub(crate) fn clear(&self) {
        let mut records = lock(&self.records);
        records.first += records.kept.len();
        records.kept.clear();
    }
}

impl<T: Clone> Log<T> {
    pub(crate) fn all(&self) -> Vec<T> {
        lock(&self.records).kept.iter().cloned().collect()
    }

    /// Waits until `count` records were added since the start, and returns those that are kept.
    pub(crate) async fn wait_total(&self, count: usize) -> Vec<T> {
        loop {
            let changed = self.changed.notified();
            if self.total() >= count {
                return self.all();
            }
            changed.await;
        }
    }

    /// Waits until at least `count` kept records satisfy `test`, and returns those.
    pub(crate) async fn wait(&self, count: usize, test: impl Fn(&T) -> bool) -> Vec<T> {
        loop {
            // Created before the check, so that a change in between is not missed.
            let changed = self.changed.notified();
            let found: Vec<T> = lock(&self.records)
                .kept
                .iter()
                .filter(|record| test(record))
                .cloned()
                .collect();
            if found.len() >= count {
                return found;
            }
            changed.await;
        }
    }
}

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("total", &self.total())
            .finish_non_exhaustive()
    }
}
