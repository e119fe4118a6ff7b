//! The query service: which of its errors are retried (RFC 0049, Response Code Retry List).
//!
//! | first error | reason |
//! | --- | --- |
//! | 4040, 4050, 4070 | `QUERY_PREPARED_STATEMENT_FAILURE` |
//! | 5000 with `queryport.indexNotFound` in its own message | `QUERY_INDEX_NOT_FOUND` |
//! | with the current server codes: 4060, 4080, 4090 | `QUERY_PREPARED_STATEMENT_FAILURE` |
//! | with the current server codes: any other with `"retry": true`, except 12016 | `SERVICE_RESPONSE_CODE_INDICATED` |
//!
//! A client that caches prepared statements discards the statement and prepares it again before the
//! retry: a request type of its own sees the failure in
//! [`NextAttempt::after`](reattempt::NextAttempt) when it is [replayed](reattempt::Replay). The
//! retry is an ordinary attempt: counted, after the back-off, within the deadline.
//!
//! The preset `ServiceClientLayer` sends the same body again. Under it a layer below looks at the
//! last record of `request.context().info()` and prepares again, or the strategy
//! `Extended::new(BestEffort::new()).never(QUERY_PREPARED_STATEMENT_FAILURE)` leaves that to the
//! caller.

use reattempt::RetryReason;
use reattempt::reason::{
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SERVICE_RESPONSE_CODE_INDICATED,
};

use crate::service_answer::ServiceError;

/// In the message of a 5000 for an index that disappeared during the query.
const INDEX_NOT_FOUND: &str = "queryport.indexNotFound";

/// A missing index, which servers mark as retryable although no retry helps.
const NO_SUCH_INDEX: i32 = 12016;

pub(crate) fn reason(error: &ServiceError, current: bool) -> Option<RetryReason> {
    let in_message = |text| {
        let message = error.message();
        message.is_some_and(|message| message.contains(text))
    };
    match error.code() {
        Some(4040 | 4050 | 4070) => Some(QUERY_PREPARED_STATEMENT_FAILURE),
        Some(5000) if in_message(INDEX_NOT_FOUND) => Some(QUERY_INDEX_NOT_FOUND),
        Some(4060 | 4080 | 4090) if current => Some(QUERY_PREPARED_STATEMENT_FAILURE),
        Some(NO_SUCH_INDEX) => None,
        _ if current && error.says_retry() => Some(SERVICE_RESPONSE_CODE_INDICATED),
        _ => None,
    }
}
