//! What a request failed with, in OpenTelemetry's words.

use std::fmt;

use crate::{Failure, RetryReason, Stage};

/// OpenTelemetry's name for what is not in a known set.
pub(super) const OTHER: &str = "_OTHER";

/// `error.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ErrorType {
    /// The server's status or code.
    Code(i32),
    /// No response, or one without a code.
    Reason(RetryReason),
    /// Dropped by its deadline.
    Timeout,
    /// Dropped before.
    Cancelled,
    /// An error of which nothing is known.
    Other,
}

impl ErrorType {
    pub(super) const fn of(failure: &Failure) -> Self {
        match (failure.code, failure.stage) {
            (Some(code), Stage::Response) => Self::Code(code),
            _ => Self::Reason(failure.reason),
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => fmt::Display::fmt(code, f),
            Self::Reason(reason) => f.write_str(reason.name()),
            Self::Timeout => f.write_str("timeout"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Other => f.write_str(OTHER),
        }
    }
}
