//! What a node says it is, in its answer to `hello`.

use bson::{DateTime, Document, Timestamp, doc, oid::ObjectId};

/// What a node is in its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Alone, of no set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// Takes writes for its set.
    Primary,
    /// Takes reads for its set from those who say so.
    Secondary,
    /// Of a set, and takes nothing for now.
    Recovering,
}

/// The set that a node belongs to, as the node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The name of the set.
    pub set_name: String,
    /// All members that clients may see, `host:port`.
    pub hosts: Vec<String>,
    /// The member that takes writes.
    pub primary: Option<String>,
    /// Grows with every election.
    pub term: u32,
}

/// Everything about a node that may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) role: Role,
    pub(super) set: Option<Membership>,
    pub(super) max_wire_version: i32,
}

/// The size of the largest document, as every server says.
const MAX_DOCUMENT: i32 = 16 * 1024 * 1024;

impl Standing {
    pub(super) fn hello(
        &self,
        me: &str,
        connection: u64,
        limit: usize,
        now: Timestamp,
    ) -> Document {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let wall = DateTime::from_millis(i64::from(now.time) * 1000);
        let writable = !matches!(self.role, Role::Secondary | Role::Recovering);
        let mut hello =
            doc! { "helloOk": true, "isWritablePrimary": writable, "ismaster": writable };
        if let (Some(set), Role::Primary | Role::Secondary | Role::Recovering) =
            (&self.set, self.role)
        {
            hello.extend(doc! {
                "setName": &set.set_name,
                "setVersion": 1,
                "hosts": &set.hosts,
                "me": me,
                "secondary": self.role == Role::Secondary,
                "lastWrite": {
                    "opTime": { "ts": now, "t": i64::from(set.term) },
                    "lastWriteDate": wall,
                },
            });
            if let Some(primary) = &set.primary {
                hello.insert("primary", primary);
            }
            if self.role == Role::Primary {
                hello.insert("electionId", election_id(set.term));
            }
        }
        if self.role == Role::Mongos {
            hello.insert("msg", "isdbgrid");
        }
        hello.extend(doc! {
            "maxBsonObjectSize": MAX_DOCUMENT.min(limit),
            "maxMessageSizeBytes": limit,
            "maxWriteBatchSize": 100_000,
            "localTime": wall,
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": i64::try_from(connection).unwrap_or(i64::MAX),
            "minWireVersion": 0,
            "maxWireVersion": self.max_wire_version,
            "readOnly": false,
        });
        hello
    }
}

/// Later terms are larger, as the discovery rules want.
fn election_id(term: u32) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[0] = 0x7f;
    bytes[8..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}
