//! The error labels that later versions of the specification use.
//!
//! The table of codes decides about reads. Labels mark overloaded servers (client backpressure,
//! since 2026), and decide which of several errors of a write is raised.

use std::time::Duration;

/// The server, or the network path to it, is overloaded.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";

/// The failed command had no effect.
pub const RETRYABLE_ERROR: &str = "RetryableError";

/// The failed command wrote nothing.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";

/// An error's `baseBackoffMS`, of any BSON number type: replaces the default base of the overload
/// back-off. `None` if it has no usable value: zero, negative or NaN.
#[must_use]
pub fn base_backoff_from_ms(ms: f64) -> Option<Duration> {
    let base = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(if ms > 0.0 {
        Duration::MAX
    } else {
        Duration::ZERO
    });
    (!base.is_zero()).then_some(base)
}

/// The labels of one error that this crate uses.
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

    /// Reads a reply's `errorLabels`, and those that the client added. Unknown labels are ignored;
    /// matching is case-sensitive.
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

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, those: Self) -> Self {
        Self {
            overloaded: self.overloaded || those.overloaded,
            retryable: self.retryable || those.retryable,
            no_writes: self.no_writes || those.no_writes,
        }
    }

    /// The server is overloaded: a retry, if any, waits.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        self.overloaded
    }

    /// The server is overloaded and did not execute the command (both labels): any command may be
    /// sent again, including writes.
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
