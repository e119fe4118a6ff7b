//! What a server's error answer says of the server itself.

use super::ServerError;

/// Servers answer these when they are no longer, or not yet, what the client took them for.
const STATE_CHANGES: [i64; 8] = [10107, 13435, 10058, 11600, 11602, 13436, 189, 91];

/// Of those, what a server answers when it goes down.
const SHUTDOWNS: [i64; 2] = [11600, 91];

/// The first wire version (MongoDB 4.2) whose connections survive a step-down.
const KEEPS_CONNECTIONS: i32 = 8;

/// Whether a server's answer means that it is not what it was, and that its connections go.
pub(super) fn state_change(error: &ServerError) -> (bool, bool) {
    let code = error.code.unwrap_or(0);
    let changed = STATE_CHANGES.contains(&code);
    let old = error.origin.max_wire_version.unwrap_or(0) < KEEPS_CONNECTIONS;
    (changed, changed && (old || SHUTDOWNS.contains(&code)))
}
