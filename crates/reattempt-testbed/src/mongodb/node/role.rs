//! The role of a node, as reported in its answer to `hello`.

use bson::{DateTime, Document, Timestamp, doc, oid::ObjectId};

/// The role of a node in its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A single server without a replica set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// Accepts writes for its set.
    Primary,
    /// Accepts reads that allow a secondary.
    Secondary,
    /// A member that accepts no commands for now.
    Recovering,
}

/// The replica set of a node, as the node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The name of the set.
    pub set_name: String,
    /// All members visible to clients, `host:port`.
    pub hosts: Vec<String>,
    /// The primary, if there is one.
    pub primary: Option<String>,
    /// Increases with every election.
    pub term: u32,
}

/// The state of a node that may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) role: Role,
    pub(super) set: Option<Membership>,
    pub(super) max_wire_version: i32,
}

/// Maximum document size in bytes, as every server reports.
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

/// Later terms have greater ids, as server discovery requires.
fn election_id(term: u32) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[0] = 0x7f;
    bytes[8..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}
