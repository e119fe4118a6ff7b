//! One read of the file.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use tokio::task::JoinError;

use crate::config::{Fault, Faults};

/// The maximum length of a file in bytes; a longer one is not read to its end.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Why the content of a file is not in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// It is missing, not a regular file, or cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Whether it is missing, or must not be read.
        kind: io::ErrorKind,
        /// The system's message.
        error: String,
    },
    /// It is longer than [`MOST_BYTES`].
    #[error("{} is longer than {MOST_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is not text.
    #[error("{} is not UTF-8: byte {byte} begins no character", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is not part of a character, from 0.
        byte: usize,
    },
    /// Its document cannot be used.
    #[error("{}: {faults}", path.display())]
    Faulty {
        /// The file.
        path: PathBuf,
        /// All of its faults, and its warnings.
        faults: Faults,
    },
    /// The program's own code panicked while it applied the content, which may be in force in part.
    #[error("{}: applying it panicked: {panic}", path.display())]
    Panicked {
        /// The file.
        path: PathBuf,
        /// The panic's message.
        panic: String,
    },
}

impl FollowError {
    /// Its text for the log: of many faults the first ones.
    pub(super) fn logged(&self) -> String {
        match self {
            Self::Faulty { path, faults } => {
                format!("{}: {}", path.display(), faults.first_ones())
            }
            other => other.to_string(),
        }
    }
}

/// What a file holds, or why that is unknown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Text(String),
    Unreadable(io::ErrorKind, String),
    TooLong,
    NotUtf8(usize, Vec<u8>),
}

impl Content {
    /// Reads the file. Blocks.
    pub(super) fn read(path: &Path) -> Self {
        match Self::bytes(path) {
            Err(error) => Self::Unreadable(error.kind(), error.to_string()),
            Ok(bytes) if bytes.len() > MOST_BYTES => Self::TooLong,
            Ok(bytes) => String::from_utf8(bytes).map_or_else(Self::not_utf8, Self::Text),
        }
    }

    fn not_utf8(error: FromUtf8Error) -> Self {
        let byte = error.utf8_error().valid_up_to();
        Self::NotUtf8(byte, error.into_bytes())
    }

    /// At most one byte more than a file may have.
    fn bytes(path: &Path) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        options.read(true);
        // To open a named pipe would otherwise block until it has a writer.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.open(path)?;
        // Of what was opened: the path may be of something else by now.
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The read itself failed.
    pub(super) fn interrupted(error: JoinError) -> Self {
        Self::Unreadable(io::ErrorKind::Other, error.to_string())
    }

    /// Passes a text on to `apply`, and makes an error of everything else.
    pub(super) fn apply(
        &self,
        path: &Path,
        apply: impl FnOnce(&str) -> Result<Vec<Fault>, Faults>,
    ) -> Result<Vec<Fault>, FollowError> {
        let path = || path.to_owned();
        match self {
            Self::Text(text) => apply(text).map_err(|faults| FollowError::Faulty {
                path: path(),
                faults,
            }),
            Self::Unreadable(kind, error) => Err(FollowError::Unreadable {
                path: path(),
                kind: *kind,
                error: error.clone(),
            }),
            Self::TooLong => Err(FollowError::TooLong { path: path() }),
            Self::NotUtf8(byte, _) => Err(FollowError::NotUtf8 {
                path: path(),
                byte: *byte,
            }),
        }
    }
}
