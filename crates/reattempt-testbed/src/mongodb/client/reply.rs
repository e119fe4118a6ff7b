//! What a server answered.

use bson::{Bson, Document, Timestamp};

use crate::mongodb::number;

/// What came back from a server that said ok.
#[derive(Debug, Clone, PartialEq)]
pub struct MongoReply {
    /// The reply.
    pub document: Document,
    /// Who answered.
    pub server: String,
    /// What that server offers.
    pub max_wire_version: i32,
    /// Of the message that was answered.
    pub request_id: i32,
    /// The client's number of the connection.
    pub connection_id: u64,
}

impl MongoReply {
    fn cursor(&self) -> Option<&Document> {
        self.document.get_document("cursor").ok()
    }

    /// The first or next batch of a cursor; nothing for other replies.
    #[must_use]
    pub fn batch(&self) -> &[Bson] {
        let list = |name| self.cursor().and_then(|cursor| cursor.get_array(name).ok());
        list("firstBatch")
            .or_else(|| list("nextBatch"))
            .map_or(&[], Vec::as_slice)
    }

    /// The cursor that stays open on the server.
    #[must_use]
    pub fn cursor_id(&self) -> Option<i64> {
        let id = number(self.cursor()?.get("id"))? as i64;
        (id != 0).then_some(id)
    }

    /// The collection that the cursor reads.
    #[must_use]
    pub fn collection(&self) -> Option<&str> {
        self.cursor()?
            .get_str("ns")
            .ok()?
            .split_once('.')
            .map(|(_, name)| name)
    }

    /// How many documents, values, databases or results the reply holds; for `count` and `insert`
    /// what it counted.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.cursor().is_some() {
            return self.batch().len();
        }
        let lists = ["values", "databases", "results"];
        lists
            .iter()
            .find_map(|name| self.document.get_array(name).ok().map(Vec::len))
            .or_else(|| number(self.document.get("n")).map(|n| n.max(0.0) as usize))
            .unwrap_or(0)
    }

    /// The server's time of the operation.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.document.get_timestamp("operationTime").ok()
    }
}
