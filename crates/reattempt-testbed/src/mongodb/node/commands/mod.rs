//! The commands, by name: permission checks and dispatch.

mod handshake;
mod pipeline;
mod read;
mod write;

use std::time::Duration;

use bson::{Document, doc};

pub(super) use handshake::Login;

use super::script::canonical;
use super::{CommandError, Role, SeenCommand, Shared};
use crate::mongodb::{lock, number};

/// The node's state of one connection.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) connection: u64,
    pub(super) app_name: Option<String>,
    pub(super) login: Login,
}

/// An answer, and how long to delay it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) document: Document,
    pub(super) wait: Duration,
}

/// A command being carried out.
#[derive(Debug)]
struct Command<'a> {
    shared: &'a Shared,
    database: &'a str,
    document: &'a Document,
}

impl Command<'_> {
    /// The value of the first field, which names the collection.
    fn collection(&self) -> Result<&str, CommandError> {
        let (name, value) = self
            .document
            .iter()
            .next()
            .unwrap_or((&EMPTY, &bson::Bson::Null));
        value.as_str().ok_or_else(|| {
            CommandError::new(73, format!("{name}: collection name has invalid type"))
        })
    }

    fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.database)
    }

    fn count_of(&self, document: &Document, field: &str) -> Option<usize> {
        number(document.get(field))
            .filter(|n| *n >= 0.0)
            .map(|n| n as usize)
    }

    fn documents(&self) -> Result<Vec<Document>, CommandError> {
        Ok(self
            .shared
            .store
            .documents(self.database, self.collection()?))
    }

    /// A cursor over `documents` that honors `batchSize` and `singleBatch`.
    fn cursor(&self, namespace: String, documents: Vec<Document>, tailing: bool) -> Document {
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

/// Executes a command.
pub(super) fn run(shared: &Shared, peer: &mut Peer, seen: &SeenCommand) -> Answer {
    let mut wait = Duration::ZERO;
    let document = dispatch(shared, peer, seen, &mut wait).unwrap_or_else(|e| e.document());
    Answer { document, wait }
}

fn dispatch(
    shared: &Shared,
    peer: &mut Peer,
    seen: &SeenCommand,
    wait: &mut Duration,
) -> Result<Document, CommandError> {
    let command = Command {
        shared,
        database: &seen.database,
        document: &seen.document,
    };
    let name = canonical(&seen.name);
    match name {
        "hello" => return Ok(handshake::hello(&command, peer)),
        "ping" | "endSessions" => return Ok(doc! {}),
        "saslStart" => return handshake::sasl_start(&command, &mut peer.login),
        "saslContinue" => return handshake::sasl_continue(&command, &mut peer.login),
        "buildInfo" => return Ok(doc! { "version": "7.0.0", "versionArray": [7, 0, 0, 0] }),
        _ => {}
    }
    if !shared.users.is_empty() && !peer.login.done() {
        return Err(CommandError::new(
            13,
            format!("command {name} requires authentication"),
        ));
    }
    permit(&command, name)?;
    match name {
        "configureFailPoint" => {
            let point = super::fail_point::FailPoint::parse(&seen.document)?;
            *lock(&shared.fail_point) = point;
            Ok(doc! {})
        }
        "find" => read::find(&command),
        "count" => read::count(&command),
        "distinct" => read::distinct(&command),
        "listDatabases" => Ok(read::list_databases(&command)),
        "listCollections" => Ok(read::list_collections(&command)),
        "listIndexes" => read::list_indexes(&command),
        "getMore" => read::get_more(&command, wait),
        "killCursors" => read::kill_cursors(&command),
        "mapReduce" => read::map_reduce(&command),
        "aggregate" => pipeline::aggregate(&command),
        "insert" => write::insert(&command),
        "delete" => write::delete(&command),
        "drop" => write::drop_collection(&command),
        "commitTransaction" | "abortTransaction" => Ok(doc! {}),
        _ => Err(CommandError::new(59, format!("no such command: '{name}'"))),
    }
}

/// Refuses a command that the node's role does not allow.
fn permit(command: &Command<'_>, name: &str) -> Result<(), CommandError> {
    let writes = match name {
        "insert" | "delete" | "drop" | "commitTransaction" => true,
        "aggregate" => pipeline::writes(command.document),
        "mapReduce" => read::map_reduce_writes(command.document),
        "find" | "count" | "distinct" | "listDatabases" | "listCollections" | "listIndexes" => {
            false
        }
        _ => return Ok(()),
    };
    let role = lock(&command.shared.standing).role;
    let secondary_ok = command
        .document
        .get_document("$readPreference")
        .and_then(|preference| preference.get_str("mode"))
        .is_ok_and(|mode| mode != "primary");
    match role {
        Role::Standalone | Role::Mongos | Role::Primary => Ok(()),
        Role::Secondary if writes => Err(CommandError::new(10107, "not primary")),
        Role::Secondary if secondary_ok => Ok(()),
        Role::Secondary => Err(CommandError::new(
            13435,
            "not primary and secondaryOk=false",
        )),
        Role::Recovering => Err(CommandError::new(
            13436,
            "node is not in primary or recovering state",
        )),
    }
}
