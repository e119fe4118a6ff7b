//! A command as recorded by a node.

use bson::Document;
use tokio::time::Instant;

/// A command as received by a node.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCommand {
    /// The command name, as sent.
    pub name: String,
    /// The database (`$db`).
    pub database: String,
    /// The whole command.
    pub document: Document,
    /// The request id of the message header.
    pub request_id: i32,
    /// The number of its connection to this node; the first is 1.
    pub connection: u64,
    /// The number of earlier commands on that connection.
    pub ordinal: u64,
    /// When it arrived.
    pub at: Instant,
    /// Whether it arrived as OP_QUERY.
    pub legacy: bool,
}

impl SeenCommand {
    /// Whether this is a data command, not one of connection handling or session cleanup.
    #[must_use]
    pub fn is_data(&self) -> bool {
        !matches!(
            canonical(&self.name),
            "hello" | "saslStart" | "saslContinue" | "ping" | "endSessions" | "killCursors"
        )
    }
}

/// The canonical name of commands that have two names.
pub(super) fn canonical(command: &str) -> &str {
    match command {
        "isMaster" | "ismaster" => "hello",
        "mapreduce" => "mapReduce",
        other => other,
    }
}
