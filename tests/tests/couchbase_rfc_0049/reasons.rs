//! The table of reasons.

use reattempt_couchbase::reasons::{
    ANALYTICS_TEMPORARY_FAILURE, CIRCUIT_BREAKER_OPEN, KV_COLLECTION_OUTDATED,
    KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED, KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS, KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE,
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SEARCH_TOO_MANY_REQUESTS,
    SERVICE_NOT_AVAILABLE, SERVICE_RESPONSE_CODE_INDICATED, SOCKET_CLOSED_WHILE_IN_FLIGHT,
    SOCKET_NOT_AVAILABLE, UNKNOWN, VIEWS_NO_ACTIVE_PARTITION, VIEWS_TEMPORARY_FAILURE,
};

/// C1: every reason by its name, with its two flags.
#[test]
fn the_twenty_reasons_are_those_of_the_table() {
    let table = [
        (UNKNOWN, "UNKNOWN", false, false),
        (SOCKET_NOT_AVAILABLE, "SOCKET_NOT_AVAILABLE", true, false),
        (SERVICE_NOT_AVAILABLE, "SERVICE_NOT_AVAILABLE", true, false),
        (NODE_NOT_AVAILABLE, "NODE_NOT_AVAILABLE", true, false),
        (KV_NOT_MY_VBUCKET, "KV_NOT_MY_VBUCKET", true, true),
        (KV_COLLECTION_OUTDATED, "KV_COLLECTION_OUTDATED", true, true),
        (
            KV_ERROR_MAP_RETRY_INDICATED,
            "KV_ERROR_MAP_RETRY_INDICATED",
            true,
            false,
        ),
        (KV_LOCKED, "KV_LOCKED", true, false),
        (KV_TEMPORARY_FAILURE, "KV_TEMPORARY_FAILURE", true, false),
        (
            KV_SYNC_WRITE_IN_PROGRESS,
            "KV_SYNC_WRITE_IN_PROGRESS",
            true,
            false,
        ),
        (
            KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
            "KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS",
            true,
            false,
        ),
        (
            SERVICE_RESPONSE_CODE_INDICATED,
            "SERVICE_RESPONSE_CODE_INDICATED",
            true,
            false,
        ),
        (
            SOCKET_CLOSED_WHILE_IN_FLIGHT,
            "SOCKET_CLOSED_WHILE_IN_FLIGHT",
            false,
            false,
        ),
        (CIRCUIT_BREAKER_OPEN, "CIRCUIT_BREAKER_OPEN", true, false),
        (
            QUERY_PREPARED_STATEMENT_FAILURE,
            "QUERY_PREPARED_STATEMENT_FAILURE",
            true,
            false,
        ),
        (QUERY_INDEX_NOT_FOUND, "QUERY_INDEX_NOT_FOUND", true, false),
        (
            ANALYTICS_TEMPORARY_FAILURE,
            "ANALYTICS_TEMPORARY_FAILURE",
            true,
            false,
        ),
        (
            SEARCH_TOO_MANY_REQUESTS,
            "SEARCH_TOO_MANY_REQUESTS",
            true,
            false,
        ),
        (
            VIEWS_TEMPORARY_FAILURE,
            "VIEWS_TEMPORARY_FAILURE",
            true,
            false,
        ),
        (
            VIEWS_NO_ACTIVE_PARTITION,
            "VIEWS_NO_ACTIVE_PARTITION",
            true,
            true,
        ),
    ];
    for (reason, name, non_idempotent, always) in table {
        assert_eq!(reason.name(), name);
        assert_eq!(
            reason.allows_non_idempotent_retry(),
            non_idempotent,
            "{name}"
        );
        assert_eq!(reason.always_retry(), always, "{name}");
    }
}
