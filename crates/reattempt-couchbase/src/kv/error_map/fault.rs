//! Faults of an error map.

use std::fmt;

/// Why a map cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorMapError {
    /// It is larger than [`MAX_BYTES`](super::MAX_BYTES).
    #[error("an error map of {bytes} bytes is refused: at most {max} are read", max = super::MAX_BYTES)]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// It is not JSON.
    #[error("not JSON, at line {line}, column {column}: {problem}")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1; 0 at the end of a line.
        column: usize,
        /// The parser's message.
        problem: String,
    },
    /// A part of it has the wrong shape.
    #[error("{path}: {problem}")]
    Shape {
        /// Where, as a JSON path.
        path: &'static str,
        /// What it must be.
        problem: &'static str,
    },
}

/// A fault in a part of a map that is used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMapFault {
    pub(super) path: String,
    pub(super) problem: &'static str,
}

impl ErrorMapFault {
    /// Where, as a JSON path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The fault and its consequence.
    #[must_use]
    pub const fn problem(&self) -> &'static str {
        self.problem
    }
}

impl fmt::Display for ErrorMapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}
