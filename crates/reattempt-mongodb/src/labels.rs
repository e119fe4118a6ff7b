//! The error labels that later versions of the specification look at.
//!
//! The table of codes decides about reads; labels decide about servers that have more to do than
//! they can (client backpressure, since 2026), and about which of several errors of a write is
//! raised.

use std::time::Duration;

/// The server, or the way to it, has more to do than it can.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";

/// The failed command had no effect, whatever it was.
pub const RETRYABLE_ERROR: &str = "RetryableError";

/// The failed command wrote nothing.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";

/// An error's `baseBackoffMS`, of whatever BSON number: what the server wants instead of the usual
/// base of the overload back-off. `None` for what asks for nothing: zero, a negative number, not a
/// number.
#[must_use]
pub fn base_backoff_from_ms(ms: f64) -> Option<Duration> {
    let base = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(if ms > 0.0 {
        Duration::MAX
    } else {
        Duration::ZERO
    });
    (!base.is_zero()).then_some(base)
}

/// The labels of one error, as far as they matter here.
///
/// ```
/// use reattempt_mongodb::ErrorLabels;
///
/// let labels =
///     ErrorLabels::read(["SystemOverloadedError", "RetryableError", "AnotherLabel"]);
/// assert!(labels.is_overload() && labels.is_retryable_overload());
/// assert!(!ErrorLabels::read(["RetryableError"]).is_retryable_overload());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorLabels {
    overloaded: bool,
    retryable: bool,
    no_writes: bool,
}

impl ErrorLabels {
    /// No label.
    pub const NONE: Self = Self {
        overloaded: false,
        retryable: false,
        no_writes: false,
    };

    /// Reads a reply's `errorLabels`, and what the client added. Others are passed over; case
    /// counts.
    #[must_use]
    pub fn read<I>(labels: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut read = Self::NONE;
        for label in labels {
            match label.as_ref() {
                SYSTEM_OVERLOADED_ERROR => read.overloaded = true,
                RETRYABLE_ERROR => read.retryable = true,
                NO_WRITES_PERFORMED => read.no_writes = true,
                _ => {}
            }
        }
        read
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, those: Self) -> Self {
        Self {
            overloaded: self.overloaded || those.overloaded,
            retryable: self.retryable || those.retryable,
            no_writes: self.no_writes || those.no_writes,
        }
    }

    /// An overloaded server: a retry waits, if there is one.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        self.overloaded
    }

    /// An overloaded server that left the command alone (both labels): any command may be sent
    /// again, also one that writes.
    #[must_use]
    pub const fn is_retryable_overload(self) -> bool {
        self.overloaded && self.retryable
    }

    /// Nothing was written.
    #[must_use]
    pub const fn is_no_writes_performed(self) -> bool {
        self.no_writes
    }
}

#[cfg(test)]
mod tests;
