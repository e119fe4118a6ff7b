//! The open cursors of a node.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::codes::CommandError;

/// Maximum number of open cursors; the oldest is closed first.
const MAX_OPEN: usize = 10_000;

/// The default size of a first batch.
const FIRST_BATCH: usize = 101;

#[derive(Debug, Default)]
pub(super) struct Cursors {
    last: i64,
    open: BTreeMap<i64, Open>,
}

#[derive(Debug)]
struct Open {
    namespace: String,
    rest: std::vec::IntoIter<Document>,
    tailing: bool,
}

impl Cursors {
    /// The first batch of a cursor over `documents`; the rest is kept.
    pub(super) fn first(
        &mut self,
        namespace: String,
        documents: Vec<Document>,
        batch_size: Option<usize>,
        single_batch: bool,
        tailing: bool,
    ) -> Document {
        let mut rest = documents.into_iter();
        let batch: Vec<Bson> = rest
            .by_ref()
            .take(batch_size.unwrap_or(FIRST_BATCH))
            .map(Bson::from)
            .collect();
        let more = tailing || (rest.len() > 0 && !single_batch);
        let id = if more {
            self.keep(Open {
                namespace: namespace.clone(),
                rest,
                tailing,
            })
        } else {
            0
        };
        let mut cursor = doc! { "firstBatch": batch, "id": id, "ns": namespace };
        if tailing {
            cursor.insert("postBatchResumeToken", doc! { "_data": "00" });
        }
        doc! { "cursor": cursor }
    }

    /// The next batch, and whether the cursor waits for new documents.
    pub(super) fn next(
        &mut self,
        id: i64,
        batch_size: Option<usize>,
    ) -> Result<(Document, bool), CommandError> {
        let open = self
            .open
            .get_mut(&id)
            .ok_or_else(|| CommandError::new(43, format!("cursor id {id} not found")))?;
        let batch: Vec<Bson> = open
            .rest
            .by_ref()
            .take(batch_size.unwrap_or(usize::MAX))
            .map(Bson::from)
            .collect();
        let waits = open.tailing && batch.is_empty();
        let mut cursor = doc! { "nextBatch": batch, "id": id, "ns": &open.namespace };
        if open.tailing {
            cursor.insert("postBatchResumeToken", doc! { "_data": "00" });
        } else if open.rest.len() == 0 {
            cursor.insert("id", 0_i64);
            self.open.remove(&id);
        }
        Ok((doc! { "cursor": cursor }, waits))
    }

    /// Closes cursors; returns which were open and which were not.
    pub(super) fn kill(&mut self, ids: &[i64]) -> (Vec<Bson>, Vec<Bson>) {
        let (killed, missing): (Vec<i64>, Vec<i64>) =
            ids.iter().partition(|id| self.open.remove(id).is_some());
        let list = |ids: Vec<i64>| ids.into_iter().map(Bson::from).collect();
        (list(killed), list(missing))
    }

    fn keep(&mut self, open: Open) -> i64 {
        if self.open.len() >= MAX_OPEN {
            self.open.pop_first();
        }
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }
}
