//! The logical command, before a server is selected.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bson::{Bson, Document, doc};
use tokio::time::Instant;

use super::description::{ServerKind, TopologyKind};
use super::{MongoError, OnProgress, Operation, Origin, ReadPreference, Session};

/// The fields that servers support only from this wire version on. To an older server nothing is
/// sent.
const FIELD_NEEDS: [(&str, i32); 2] = [("collation", 5), ("readConcern", 4)];

/// One operation, encoded for the selected server on every attempt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MongoRequest {
    /// The kind of operation.
    pub operation: Operation,
    /// `$db`.
    pub database: String,
    /// The command without `$db`, `lsid`, `$clusterTime` and `$readPreference`.
    pub command: Document,
    /// The session, shared by all attempts (M26).
    pub session: Arc<Session>,
    /// The read preference; `None` uses the client's. Writes and transactions always use the
    /// primary.
    pub read_preference: Option<ReadPreference>,
    /// Addresses to avoid, unless no other server is suitable.
    pub avoid: Vec<String>,
    /// Whether the session is in a transaction, of which this is the first command.
    pub in_transaction: bool,
    /// The operation id, shared by all attempts.
    pub operation_id: i64,
    /// The only server that may answer, as for `getMore`.
    pub pinned: Option<String>,
    /// The minimum wire version; nothing is sent to a server below it.
    pub requires_wire_version: Option<i32>,
    /// The end of server selection, if before the client's own timeout.
    pub deadline: Option<Instant>,
    /// The listener for progress.
    pub on_progress: OnProgress,
}

/// The server that a command is encoded for.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) origin: Origin,
    pub(super) kind: ServerKind,
    pub(super) topology: TopologyKind,
    pub(super) wire_version: i32,
    pub(super) sessions: bool,
    pub(super) cluster_time: Option<&'a Document>,
    pub(super) preference: ReadPreference,
}

static OPERATIONS: AtomicI64 = AtomicI64::new(1);

impl MongoRequest {
    /// An operation with its command, a new implicit session and a new operation id.
    #[must_use]
    pub fn new(operation: Operation, database: &str, command: Document) -> Self {
        Self {
            operation,
            database: database.to_owned(),
            command,
            session: Arc::new(Session::new()),
            read_preference: None,
            avoid: Vec::new(),
            in_transaction: operation == Operation::TxnFind,
            operation_id: OPERATIONS.fetch_add(1, Ordering::Relaxed),
            pinned: None,
            requires_wire_version: None,
            deadline: None,
            on_progress: OnProgress::default(),
        }
    }

    /// An operation of the contract with its usual command, merged with `options`.
    #[must_use]
    pub fn of(operation: Operation, database: &str, collection: &str, options: Document) -> Self {
        let mut command = operation.command(collection);
        command.extend(options);
        let operation = operation.given(&command);
        let database = if operation == Operation::ListDatabases {
            "admin"
        } else {
            database
        };
        Self::new(operation, database, command)
    }

    /// `find` of all documents that match `filter`.
    #[must_use]
    pub fn find(database: &str, collection: &str, filter: Document) -> Self {
        Self::of(
            Operation::Find,
            database,
            collection,
            doc! { "filter": filter },
        )
    }

    /// The next batch of a cursor, from the server that holds it, in the session and transaction
    /// that opened it.
    #[must_use]
    pub fn get_more(
        &self,
        server: &str,
        cursor: i64,
        collection: &str,
        batch_size: Option<i32>,
    ) -> Self {
        let mut command = doc! { "getMore": cursor, "collection": collection };
        if let Some(size) = batch_size {
            command.insert("batchSize", size);
        }
        let mut more = Self::new(Operation::GetMore, &self.database, command);
        more.session = Arc::clone(&self.session);
        more.in_transaction = self.in_transaction;
        more.read_preference = self.read_preference;
        more.pinned = Some(server.to_owned());
        more.deadline = self.deadline;
        more
    }

    /// The name of the command.
    #[must_use]
    pub fn command_name(&self) -> &str {
        self.command.keys().next().map_or("", String::as_str)
    }

    /// The operation, as its command is now.
    pub(in crate::mongodb) fn given(&self) -> Operation {
        self.operation.given(&self.command)
    }

    /// The read preference in effect.
    pub(super) fn preference(&self, default: ReadPreference) -> ReadPreference {
        let operation = self.given();
        let is_inline = |out: &Bson| {
            out.as_document()
                .is_some_and(|out| out.contains_key("inline"))
        };
        // A collection, which only a primary can write.
        let has_target = operation == Operation::MapReduce
            && self.command.get("out").is_some_and(|out| !is_inline(out));
        if operation.writes() || has_target || self.in_transaction {
            return ReadPreference::Primary;
        }
        let default = match operation {
            Operation::RunCommand | Operation::RunCommandFind => ReadPreference::Primary,
            _ => default,
        };
        self.read_preference.unwrap_or(default)
    }

    /// Encodes the command for one server, on every attempt (M24, M25).
    pub(super) fn encode(&self, target: &Target<'_>) -> Result<Document, MongoError> {
        let refuse = |message: String| MongoError::Rebuild {
            origin: target.origin.clone(),
            message,
        };
        if let Some(needs) = self
            .requires_wire_version
            .filter(|v| *v > target.wire_version)
        {
            return Err(refuse(format!(
                "needs wire version {needs}, the server has {}",
                target.wire_version
            )));
        }
        for (field, needs) in FIELD_NEEDS {
            if target.wire_version < needs && self.command.contains_key(field) {
                return Err(refuse(format!(
                    "{field} needs wire version {needs}, the server has {}",
                    target.wire_version
                )));
            }
        }
        let mut command = self.command.clone();
        self.advance_read_concern(&mut command);
        command.insert("$db", &self.database);
        let sessions = target.sessions && target.wire_version >= 6;
        if self.in_transaction && !sessions {
            return Err(refuse(
                "has no sessions, which a transaction needs".to_owned(),
            ));
        }
        if sessions {
            command.insert("lsid", self.session.lsid());
            if self.in_transaction {
                command.extend(doc! { "txnNumber": 1_i64, "autocommit": false });
                if self.operation != Operation::GetMore {
                    command.insert("startTransaction", true);
                }
            }
        }
        if let Some(time) = target.cluster_time {
            command.insert("$clusterTime", time);
        }
        // A transaction reads from the primary, which needs no preference.
        if let Some(mode) = read_preference_sent(target).filter(|_| !self.in_transaction) {
            command.insert("$readPreference", doc! { "mode": mode.name() });
        }
        Ok(command)
    }

    /// A session that has seen a later time reads at least at that time (M25).
    fn advance_read_concern(&self, command: &mut Document) {
        let Ok(concern) = command.get_document_mut("readConcern") else {
            return;
        };
        let Ok(given) = concern.get_timestamp("afterClusterTime") else {
            return;
        };
        let seen = self.session.operation_time();
        concern.insert(
            "afterClusterTime",
            seen.map_or(given, |seen| seen.max(given)),
        );
    }
}

/// The read preference to send; standalones and primaries need none.
fn read_preference_sent(target: &Target<'_>) -> Option<ReadPreference> {
    match (target.topology, target.kind, target.preference) {
        (_, ServerKind::Standalone, _) => None,
        // A directly connected member answers reads even as a secondary.
        (TopologyKind::Single, kind, ReadPreference::Primary) if kind != ServerKind::Mongos => {
            Some(ReadPreference::PrimaryPreferred)
        }
        (_, _, ReadPreference::Primary) => None,
        (_, _, mode) => Some(mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_a_collection_goes_to_the_primary() {
        let preference = |out: Bson| {
            let options = doc! { "out": out };
            let request = MongoRequest::of(Operation::MapReduce, "db", "c", options);
            request.preference(ReadPreference::Secondary)
        };
        assert_eq!(preference(Bson::from("totals")), ReadPreference::Primary);
        let merged = doc! { "merge": "totals" };
        assert_eq!(preference(merged.into()), ReadPreference::Primary);
        let inline = doc! { "inline": 1 };
        assert_eq!(preference(inline.into()), ReadPreference::Secondary);
    }
}
