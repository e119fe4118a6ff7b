//! The view engine: which of its statuses are retried (RFC 0049, Response Code Retry List).
//!
//! | status | reason |
//! | --- | --- |
//! | 302 | `VIEWS_NO_ACTIVE_PARTITION`, under any strategy |
//! | 300, 301, 303, 307, 401, 408, 409, 412, 416, 417, 501, 502, 503, 504 | `VIEWS_TEMPORARY_FAILURE` |
//! | 404 whose body has `"reason":"missing"` | `VIEWS_TEMPORARY_FAILURE` |
//! | 500, unless its body has `{not_found, missing_named_view}` or `"badarg"` | `VIEWS_TEMPORARY_FAILURE` |
//!
//! Redirects must not be followed: disable this in clients that follow them by default (reqwest).
//! RFC 0049 searches for texts, not for JSON members, and so does this crate; white space around
//! the colon of `"reason":"missing"` is ignored. For a 500 the RFC also requires the word `error`;
//! here the texts alone are enough, because they describe permanent errors.

use reattempt::RetryReason;
use reattempt::reason::{VIEWS_NO_ACTIVE_PARTITION, VIEWS_TEMPORARY_FAILURE};

use crate::phrase::{Phrase, Wording};

/// In a 404: the design document does not exist yet, or not on this node.
const MISSING: Wording = &[Phrase::with_gaps("\"reason\":\"missing\"", &[8, 9])];

/// In a 500: there is no such view, or the query is malformed.
const NO_VIEW_OR_MALFORMED: Wording = &[
    Phrase::of("{not_found, missing_named_view}"),
    Phrase::of("\"badarg\""),
];

/// What to search for in the body of a response with this status.
pub(crate) fn wording(status: u16) -> Option<Wording> {
    match status {
        404 => Some(MISSING),
        500 => Some(NO_VIEW_OR_MALFORMED),
        _ => None,
    }
}

/// `worded`: the body contains that wording.
pub(crate) fn reason(status: u16, worded: bool) -> Option<RetryReason> {
    match status {
        302 => Some(VIEWS_NO_ACTIVE_PARTITION),
        300 | 301 | 303 | 307 => Some(VIEWS_TEMPORARY_FAILURE),
        401 | 408 | 409 | 412 | 416 | 417 => Some(VIEWS_TEMPORARY_FAILURE),
        501..=504 => Some(VIEWS_TEMPORARY_FAILURE),
        404 if worded => Some(VIEWS_TEMPORARY_FAILURE),
        500 if !worded => Some(VIEWS_TEMPORARY_FAILURE),
        _ => None,
    }
}
