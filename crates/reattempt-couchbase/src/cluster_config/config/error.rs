//! Why a configuration is refused.

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is larger than [`MAX_BYTES`](super::MAX_BYTES).
    #[error("a configuration of {bytes} bytes is refused: at most {max} are read", max = super::MAX_BYTES)]
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
    /// A part of it cannot be right.
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

/// What was found wrong with one configuration so far, up to a bound: a hostile one may be wrong
/// everywhere.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<ConfigError>);

impl Faults {
    const MOST: usize = 100;

    pub(super) fn add(&mut self, fault: ConfigError) {
        if self.0.len() < Self::MOST {
            self.0.push(fault);
        }
    }

    /// What was read, or else its fault is kept.
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
