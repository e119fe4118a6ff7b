//! A command, and what all commands read of it.

use bson::Document;
use reattempt_clients::mongodb::wire::number;

use crate::lock::lock;
use crate::mongodb::node::codes::CommandError;
use crate::mongodb::node::shared::Shared;

/// A command being carried out.
#[derive(Debug)]
pub(super) struct Command<'a> {
    pub(super) shared: &'a Shared,
    pub(super) database: &'a str,
    pub(super) document: &'a Document,
}

impl Command<'_> {
    /// The value of the first field, which names the collection.
    pub(super) fn collection(&self) -> Result<&str, CommandError> {
        let (name, value) = self
            .document
            .iter()
            .next()
            .unwrap_or((&EMPTY, &bson::Bson::Null));
        value.as_str().ok_or_else(|| {
            CommandError::new(73, format!("{name}: collection name has invalid type"))
        })
    }

    pub(super) fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.database)
    }

    pub(super) fn count_of(&self, document: &Document, field: &str) -> Option<usize> {
        number(document.get(field))
            .filter(|n| *n >= 0.0)
            .map(|n| n as usize)
    }

    pub(super) fn documents(&self) -> Result<Vec<Document>, CommandError> {
        Ok(self
            .shared
            .store
            .documents(self.database, self.collection()?))
    }

    /// A cursor over `documents` that honors `batchSize` and `singleBatch`.
    pub(super) fn cursor(
        &self,
        namespace: String,
        documents: Vec<Document>,
        tailing: bool,
    ) -> Document {
        let options = self
            .document
            .get_document("cursor")
            .unwrap_or(self.document);
        let single = self.document.get_bool("singleBatch").unwrap_or(false);
        let batch_size = self.count_of(options, "batchSize");
        lock(&self.shared.cursors).first(namespace, documents, batch_size, single, tailing)
    }
}

static EMPTY: String = String::new();
