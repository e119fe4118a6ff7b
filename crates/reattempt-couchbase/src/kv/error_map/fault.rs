//! What can be wrong with an error map.

use std::fmt;

/// Why a map cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorMapError {
    /// It is larger than [`MAX_BYTES`](super::MAX_BYTES).
    #[error("an error map of {bytes} bytes is refused: at most {max} are read", max = super::MAX_BYTES)]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// It is not JSON.
    #[error("not JSON, at line {line}, column {column}: {problem}")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1; 0 at the end of a line.
        column: usize,
        /// What the parser says.
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

/// What is wrong with a part of a map that is used all the same.
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

    /// What is wrong, and what follows from it.
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
