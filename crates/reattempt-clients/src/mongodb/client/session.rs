//! Sessions, which connect the attempts of one operation on the server.

use std::sync::Mutex;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, Timestamp, doc};

use crate::lock::lock;

/// A session. Each operation has its own by default.
#[derive(Debug)]
pub struct Session {
    id: [u8; 16],
    operation_time: Mutex<Option<Timestamp>>,
}

impl Session {
    /// A session with a new id.
    #[must_use]
    pub fn new() -> Self {
        let mut id: [u8; 16] = rand::random();
        // A version 4 UUID, as servers expect.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        Self {
            id,
            operation_time: Mutex::new(None),
        }
    }

    /// The document `lsid`.
    #[must_use]
    pub fn lsid(&self) -> Document {
        doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: self.id.to_vec() } }
    }

    /// The latest `operationTime` of any reply in this session, including errors.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        *lock(&self.operation_time)
    }

    /// Records the time of a reply.
    pub(super) fn saw(&self, reply: &Document) {
        if let Ok(time) = reply.get_timestamp("operationTime") {
            let mut latest = lock(&self.operation_time);
            *latest = Some(latest.map_or(time, |latest| latest.max(time)));
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}
