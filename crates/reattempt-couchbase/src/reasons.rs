//! The retry reasons of Couchbase: RFC 0049's own, from the vocabulary that all protocols share.
//!
//! The key-value part adds none: what shipping clients learned since has a reason in RFC 0049's table too.

pub use reattempt::reason::{
    CIRCUIT_BREAKER_OPEN, KV_COLLECTION_OUTDATED, KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED,
    KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS, KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
    KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE,
    SERVICE_RESPONSE_CODE_INDICATED, SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE, UNKNOWN,
};
