//! The server error codes that make a read retryable, as data (Terms, Retryable Error).

use reattempt::RetryReason;

use crate::reasons::{
    MONGODB_EXCEEDED_TIME_LIMIT, MONGODB_NODE_IS_RECOVERING, MONGODB_NOT_WRITABLE_PRIMARY,
    MONGODB_READ_CONCERN_NOT_AVAILABLE_YET, MONGODB_SERVER_NETWORK_ERROR,
};

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryableCode {
    /// The number in the reply's `code`.
    pub code: i32,
    /// The specification's name for it. Informative; never compared with what a server sends.
    pub name: &'static str,
    /// The retry reason it maps to.
    pub reason: RetryReason,
}

const fn row(code: i32, name: &'static str, reason: RetryReason) -> RetryableCode {
    RetryableCode { code, name, reason }
}

/// The eleven codes of the specification of 2022, in its order.
pub const SEED_2022: [RetryableCode; 11] = [
    row(11600, "InterruptedAtShutdown", MONGODB_NODE_IS_RECOVERING),
    row(
        11602,
        "InterruptedDueToReplStateChange",
        MONGODB_NODE_IS_RECOVERING,
    ),
    row(10107, "NotWritablePrimary", MONGODB_NOT_WRITABLE_PRIMARY),
    row(
        13435,
        "NotPrimaryNoSecondaryOk",
        MONGODB_NOT_WRITABLE_PRIMARY,
    ),
    row(13436, "NotPrimaryOrSecondary", MONGODB_NODE_IS_RECOVERING),
    row(189, "PrimarySteppedDown", MONGODB_NODE_IS_RECOVERING),
    row(91, "ShutdownInProgress", MONGODB_NODE_IS_RECOVERING),
    row(7, "HostNotFound", MONGODB_SERVER_NETWORK_ERROR),
    row(6, "HostUnreachable", MONGODB_SERVER_NETWORK_ERROR),
    row(89, "NetworkTimeout", MONGODB_SERVER_NETWORK_ERROR),
    row(9001, "SocketException", MONGODB_SERVER_NETWORK_ERROR),
];

/// The two codes that the specification added in November 2023.
pub const ADDED_2023: [RetryableCode; 2] = [
    row(
        134,
        "ReadConcernMajorityNotAvailableYet",
        MONGODB_READ_CONCERN_NOT_AVAILABLE_YET,
    ),
    row(262, "ExceededTimeLimit", MONGODB_EXCEEDED_TIME_LIMIT),
];

/// Finds the row of this code in the table of 2022 and, with `added`, in the codes added later.
#[must_use]
pub fn find(code: i64, added: bool) -> Option<&'static RetryableCode> {
    let later: &[RetryableCode] = if added { &ADDED_2023 } else { &[] };
    SEED_2022
        .iter()
        .chain(later)
        .find(|row| i64::from(row.code) == code)
}

/// A reply's `code` that arrived as a BSON double: the whole number it represents, or `None` if it
/// represents none (a fraction, NaN, out of range). A 32 or 64 bit code does not need this.
#[must_use]
pub fn code_from_f64(code: f64) -> Option<i64> {
    let whole = code.is_finite() && code.fract() == 0.0;
    // Codes are 32 bit numbers; within that range the cast is exact.
    let fits = code >= f64::from(i32::MIN) && code <= f64::from(i32::MAX);
    (whole && fits).then_some(code as i64)
}

#[cfg(test)]
mod tests;
