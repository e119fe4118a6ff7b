//! The commands, by name: permission checks and dispatch.

mod command;
mod handshake;
mod peer;
mod pipeline;
mod read;
mod write;

use std::time::Duration;

use bson::{Document, doc};

pub(super) use peer::Peer;

use command::Command;

use super::codes::CommandError;
use super::role::Role;
use super::seen::{SeenCommand, canonical};
use super::shared::Shared;
use crate::lock::lock;

/// An answer, and how long to delay it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) document: Document,
    pub(super) wait: Duration,
}

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
        "hello" => return handshake::hello(&command, peer),
        "ping" | "endSessions" => return Ok(doc! {}),
        "saslStart" => return handshake::sasl_start(&command, &mut peer.login),
        "saslContinue" => return handshake::sasl_continue(&command, &mut peer.login),
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
        _ => Err(CommandError::new(59, format!("no such command: '{name}'"))),
    }
}

/// Refuses a command that the node's role does not allow.
fn permit(command: &Command<'_>, name: &str) -> Result<(), CommandError> {
    let writes = match name {
        "insert" => true,
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
