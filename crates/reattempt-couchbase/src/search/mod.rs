//! The search service: which of its statuses are retried (RFC 0049, Response Code Retry List).
//!
//! | status | reason |
//! | --- | --- |
//! | 429 | `SEARCH_TOO_MANY_REQUESTS` |
//! | with the current server codes: 429 whose body names a rate or quota limit | final |
//!
//! Unlike a full queue, a user's limit still applies after a few milliseconds.

use reattempt::RetryReason;
use reattempt::reason::SEARCH_TOO_MANY_REQUESTS;

use crate::phrase::{Phrase, Wording};

const TOO_MANY_REQUESTS: u16 = 429;

/// The limits, as worded in the body of a 429.
const A_LIMIT: Wording = &[
    Phrase::of("num_concurrent_requests"),
    Phrase::of("num_queries_per_min"),
    Phrase::of("ingress_mib_per_min"),
    Phrase::of("egress_mib_per_min"),
    Phrase::of("num_fts_indexes"),
];

/// What to search for in the body of a response with this status.
pub(crate) fn wording(status: u16, current: bool) -> Option<Wording> {
    (current && status == TOO_MANY_REQUESTS).then_some(A_LIMIT)
}

/// `worded`: the body contains that wording.
pub(crate) fn reason(status: u16, worded: bool) -> Option<RetryReason> {
    (status == TOO_MANY_REQUESTS && !worded).then_some(SEARCH_TOO_MANY_REQUESTS)
}
