//! What a server answered.

use bson::{Bson, Document, RawArrayBuf, Timestamp};

use crate::mongodb::number;

/// What came back from a server that said ok.
#[derive(Debug, Clone, PartialEq)]
pub struct MongoReply {
    /// The reply without its list.
    pub document: Document,
    /// A cursor's batch, or the first of `values`, `databases` and `results`, as it came.
    pub list: Option<RawArrayBuf>,
    /// The length of the message.
    pub bytes: usize,
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

    /// The values of the reply's list, each decoded when it is its turn.
    pub fn values(&self) -> impl Iterator<Item = Bson> + '_ {
        let values = self.list.iter().flat_map(|list| list.into_iter());
        // A list that cannot be decoded has made the reply no reply.
        values.filter_map(|value| Bson::try_from(value.ok()?).ok())
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
        match &self.list {
            Some(list) => list.into_iter().count(),
            None if self.cursor().is_some() => 0,
            None => number(self.document.get("n")).map_or(0, |n| n.max(0.0) as usize),
        }
    }

    /// The server's time of the operation.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.document.get_timestamp("operationTime").ok()
    }
}
