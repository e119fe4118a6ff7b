//! The documents and the cluster clock of one deployment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bson::{Document, Timestamp, oid::ObjectId};

use crate::lock::lock;

/// The first second of the cluster clock: fixed, so that runs are repeatable.
const EPOCH: u32 = 1_700_000_000;

type Collections = BTreeMap<String, Vec<Document>>;

/// Documents in memory, shared by all nodes with a clone.
///
/// Replication takes no time: all nodes read the same collections.
#[derive(Debug, Clone, Default)]
pub struct Store {
    data: Arc<Mutex<Data>>,
}

#[derive(Debug, Default)]
struct Data {
    databases: BTreeMap<String, Collections>,
    ticks: u32,
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds documents, and an `_id` to those without one. Stops at the first duplicate `_id`.
    ///
    /// Documents before the duplicate stay, as with an ordered insert.
    ///
    /// # Errors
    ///
    /// The index of the first document whose `_id` already exists.
    pub fn insert(
        &self,
        database: &str,
        collection: &str,
        documents: impl IntoIterator<Item = Document>,
    ) -> Result<usize, usize> {
        let mut data = lock(&self.data);
        let held = data
            .databases
            .entry(database.to_owned())
            .or_default()
            .entry(collection.to_owned())
            .or_default();
        let mut inserted = 0;
        for mut document in documents {
            match document.get("_id") {
                Some(id) if held.iter().any(|other| other.get("_id") == Some(id)) => {
                    return Err(inserted);
                }
                Some(_) => {}
                None => {
                    document.insert("_id", ObjectId::new());
                }
            }
            held.push(document);
            inserted += 1;
        }
        Ok(inserted)
    }

    /// Replaces all documents of a collection (`$out`).
    pub fn replace(&self, database: &str, collection: &str, documents: Vec<Document>) {
        lock(&self.data)
            .databases
            .entry(database.to_owned())
            .or_default()
            .insert(collection.to_owned(), documents);
    }

    /// Replaces the document with the same `_id`, or adds it (`$merge`).
    pub fn merge(&self, database: &str, collection: &str, documents: Vec<Document>) {
        let mut held = self.documents(database, collection);
        for document in documents {
            match held
                .iter_mut()
                .find(|other| other.get("_id") == document.get("_id"))
            {
                Some(other) => *other = document,
                None => held.push(document),
            }
        }
        self.replace(database, collection, held);
    }

    /// All documents of a collection, in insertion order.
    #[must_use]
    pub fn documents(&self, database: &str, collection: &str) -> Vec<Document> {
        lock(&self.data)
            .databases
            .get(database)
            .and_then(|held| held.get(collection))
            .cloned()
            .unwrap_or_default()
    }

    /// The names of the databases.
    #[must_use]
    pub fn databases(&self) -> Vec<String> {
        lock(&self.data).databases.keys().cloned().collect()
    }

    /// The names of a database's collections.
    #[must_use]
    pub fn collections(&self, database: &str) -> Vec<String> {
        lock(&self.data)
            .databases
            .get(database)
            .map(|held| held.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The current cluster time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp {
            time: EPOCH.saturating_add(lock(&self.data).ticks),
            increment: 1,
        }
    }

    /// Advances the cluster time and returns it.
    pub fn tick(&self) -> Timestamp {
        let mut data = lock(&self.data);
        data.ticks = data.ticks.saturating_add(1);
        Timestamp {
            time: EPOCH.saturating_add(data.ticks),
            increment: 1,
        }
    }
}
