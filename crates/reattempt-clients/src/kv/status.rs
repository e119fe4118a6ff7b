//! Statuses of the memcached binary protocol that the node returns or the client checks.

/// Success.
pub const SUCCESS: u16 = 0x00;
/// The key does not exist.
pub const KEY_ENOENT: u16 = 0x01;
/// The key exists, or the CAS differs.
pub const KEY_EEXISTS: u16 = 0x02;
/// The value is too large.
pub const E2BIG: u16 = 0x03;
/// The request is malformed.
pub const EINVAL: u16 = 0x04;
/// Nothing was stored.
pub const NOT_STORED: u16 = 0x05;
/// The document is not a counter.
pub const DELTA_BADVAL: u16 = 0x06;
/// Another node owns the vbucket.
pub const NOT_MY_VBUCKET: u16 = 0x07;
/// No bucket was selected.
pub const NO_BUCKET: u16 = 0x08;
/// The document is locked.
pub const LOCKED: u16 = 0x09;
/// The server would have throttled the request (it carries a throttle duration).
pub const EWOULD_THROTTLE: u16 = 0x0c;
/// The node knows only the configuration of the bucket.
pub const ECONFIG_ONLY: u16 = 0x0d;
/// The document is not locked.
pub const NOT_LOCKED: u16 = 0x0e;
/// The authentication context is stale.
pub const AUTH_STALE: u16 = 0x1f;
/// Authentication failed.
pub const AUTH_ERROR: u16 = 0x20;
/// Authentication needs another step.
pub const AUTH_CONTINUE: u16 = 0x21;
/// A value is out of range.
pub const ERANGE: u16 = 0x22;
/// Access denied.
pub const EACCESS: u16 = 0x24;
/// The server is not initialized yet.
pub const NOT_INITIALIZED: u16 = 0x25;
/// The server does not know the command.
pub const UNKNOWN_COMMAND: u16 = 0x81;
/// Out of memory.
pub const ENOMEM: u16 = 0x82;
/// Not supported.
pub const NOT_SUPPORTED: u16 = 0x83;
/// Internal error.
pub const EINTERNAL: u16 = 0x84;
/// Busy.
pub const EBUSY: u16 = 0x85;
/// Temporary failure.
pub const ETMPFAIL: u16 = 0x86;
/// The collection is unknown.
pub const UNKNOWN_COLLECTION: u16 = 0x88;
/// The scope is unknown.
pub const UNKNOWN_SCOPE: u16 = 0x8c;
/// A durable write on this key is in progress.
pub const SYNC_WRITE_IN_PROGRESS: u16 = 0xa2;
/// The result of a durable write is unknown.
pub const SYNC_WRITE_AMBIGUOUS: u16 = 0xa3;
/// A durable write is being committed again.
pub const SYNC_WRITE_RE_COMMIT_IN_PROGRESS: u16 = 0xa4;
/// The path does not exist in the document.
pub const PATH_ENOENT: u16 = 0xc0;
/// The path does not match the document's structure.
pub const PATH_MISMATCH: u16 = 0xc1;
/// The path is malformed.
pub const PATH_EINVAL: u16 = 0xc2;
/// The document is not JSON.
pub const NOT_JSON: u16 = 0xc6;
/// The combination of paths is not allowed.
pub const INVALID_COMBO: u16 = 0xcb;
/// At least one path failed.
pub const MULTI_PATH_FAILURE: u16 = 0xcc;
