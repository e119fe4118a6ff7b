//! What an error reply means for the state of its server.

use super::ServerError;

/// Codes of servers whose state differs from what the client assumed.
const STATE_CHANGES: [i64; 8] = [10107, 13435, 10058, 11600, 11602, 13436, 189, 91];

/// Of those, the codes of a server that shuts down.
const SHUTDOWNS: [i64; 2] = [11600, 91];

/// The first wire version (MongoDB 4.2) whose connections survive a step-down.
const KEEPS_CONNECTIONS: i32 = 8;

/// Whether a reply shows a changed state, and whether the server's connections must be closed.
pub(super) fn state_change(error: &ServerError) -> (bool, bool) {
    let code = error.code.unwrap_or(0);
    let changed = STATE_CHANGES.contains(&code);
    let old = error.origin.max_wire_version.unwrap_or(0) < KEEPS_CONNECTIONS;
    (changed, changed && (old || SHUTDOWNS.contains(&code)))
}
