//! The analytics service: which of its errors are retried (RFC 0049, Response Code Retry List).
//!
//! | first error | reason |
//! | --- | --- |
//! | 23000, 23003, 23007 | `ANALYTICS_TEMPORARY_FAILURE` |

use reattempt::RetryReason;
use reattempt::reason::ANALYTICS_TEMPORARY_FAILURE;

use crate::service_answer::ServiceError;

pub(crate) fn reason(error: &ServiceError) -> Option<RetryReason> {
    match error.code() {
        Some(23000 | 23003 | 23007) => Some(ANALYTICS_TEMPORARY_FAILURE),
        _ => None,
    }
}
