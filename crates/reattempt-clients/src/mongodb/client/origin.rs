//! Which server and connection something comes from.

/// Where a failure comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The server's address.
    pub server: String,
    /// The server's wire version on this connection, or as seen by the monitor without one.
    pub max_wire_version: Option<i32>,
    /// The client's number of the connection.
    pub connection: Option<u64>,
}
