//! The search service: which of its statuses are sent again (RFC 0049, Response Code Retry List).
//!
//! | status | reason |
//! | --- | --- |
//! | 429 | `SEARCH_TOO_MANY_REQUESTS` |
//! | with the current server codes: 429 whose body names a rate or quota limit | final |
//!
//! A limit of the user's is not gone after a few milliseconds, as a queue that is full is.

use reattempt::RetryReason;
use reattempt::reason::SEARCH_TOO_MANY_REQUESTS;

use crate::service::phrase::{Phrase, Wording};

const TOO_MANY_REQUESTS: u16 = 429;

/// The limits, as the body of a 429 names them.
const A_LIMIT: Wording = Wording {
    any: &[
        Phrase::of("num_concurrent_requests"),
        Phrase::of("num_queries_per_min"),
        Phrase::of("ingress_mib_per_min"),
        Phrase::of("egress_mib_per_min"),
        Phrase::of("num_fts_indexes"),
    ],
};

/// What to look for in the body of an answer with this status.
pub(crate) fn wording(status: u16, current: bool) -> Option<Wording> {
    (current && status == TOO_MANY_REQUESTS).then_some(A_LIMIT)
}

/// `worded`: the body has that wording.
pub(crate) fn reason(status: u16, worded: bool) -> Option<RetryReason> {
    (status == TOO_MANY_REQUESTS && !worded).then_some(SEARCH_TOO_MANY_REQUESTS)
}
