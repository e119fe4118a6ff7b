//! Why a configuration is rejected.

/// Why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is larger than [`MAX_BYTES`](super::MAX_BYTES).
    #[error("a configuration of {bytes} bytes is refused: at most {max} are read", max = super::MAX_BYTES)]
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
    /// A part of it is invalid.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where, as a JSON path.
        path: String,
        /// What it must be.
        problem: &'static str,
    },
}

impl ConfigError {
    pub(super) fn at(path: impl Into<String>, problem: &'static str) -> Self {
        Self::Invalid {
            path: path.into(),
            problem,
        }
    }
}

/// The faults found in one configuration so far. Bounded, because a hostile one may contain any
/// number.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<ConfigError>);

impl Faults {
    const MOST: usize = 100;

    pub(super) fn add(&mut self, fault: ConfigError) {
        if self.0.len() < Self::MOST {
            self.0.push(fault);
        }
    }

    /// Returns the value, or stores its fault.
    pub(super) fn keep<T>(&mut self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|fault| self.add(fault)).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<ConfigError> {
        self.0
    }
}
