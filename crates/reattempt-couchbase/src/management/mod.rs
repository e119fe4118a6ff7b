//! Cluster management: no status is retried (RFC 0049 lists none), and only a GET is idempotent.
//!
//! An attempt whose response was lost is retried only if it was a GET; one that was never sent is
//! always retried.

use reattempt::Idempotency;

/// RFC 0049's list of idempotent operations, which is narrower than HTTP's own.
pub(crate) fn idempotency(method: &http::Method) -> Idempotency {
    if method == http::Method::GET {
        Idempotency::Idempotent
    } else {
        Idempotency::NotIdempotent
    }
}
