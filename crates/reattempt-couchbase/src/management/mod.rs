//! Cluster management: no status is sent again (RFC 0049 lists none), and only a GET may take
//! effect twice.
//!
//! An attempt whose answer was lost is sent again if it was a GET; one that was never sent is,
//! whatever it was.

use reattempt::Idempotency;

/// RFC 0049's list of idempotent operations, which is narrower than HTTP's own.
pub(crate) fn idempotency(method: &http::Method) -> Idempotency {
    if method == http::Method::GET {
        Idempotency::Idempotent
    } else {
        Idempotency::NotIdempotent
    }
}
