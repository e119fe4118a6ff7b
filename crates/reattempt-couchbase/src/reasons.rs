//! The retry reasons of Couchbase: those of RFC 0049, from the vocabulary that all protocols share,
//! and one for requests that cannot be sent. The codes that current clients handle also have a
//! reason in RFC 0049's table.

pub use reattempt::reason::{
    ANALYTICS_TEMPORARY_FAILURE, CIRCUIT_BREAKER_OPEN, KV_COLLECTION_OUTDATED,
    KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED, KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS, KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE,
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SEARCH_TOO_MANY_REQUESTS,
    SERVICE_NOT_AVAILABLE, SERVICE_RESPONSE_CODE_INDICATED, SOCKET_CLOSED_WHILE_IN_FLIGHT,
    SOCKET_NOT_AVAILABLE, UNKNOWN, VIEWS_NO_ACTIVE_PARTITION, VIEWS_TEMPORARY_FAILURE,
};

reattempt::retry_reasons! {
    /// The client cannot send the request: it cannot be encoded, or names a collection that the
    /// client cannot resolve. It says nothing about the node. Not of RFC 0049.
    pub KV_INVALID_REQUEST(false, false, request);
}
