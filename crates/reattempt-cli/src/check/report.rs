//! What is to be said of one file.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::printable::OneLine;

/// One fault or warning, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Remark {
    /// A JSON path; `$` is the whole document.
    path: String,
    message: String,
}

impl Remark {
    pub(super) fn new(path: impl Into<String>, message: impl ToString) -> Self {
        Self {
            path: path.into(),
            message: message.to_string(),
        }
    }

    /// The same, of a document that stands at this path in another.
    pub(super) fn below(mut self, path: &str) -> Self {
        self.path.replace_range(..1, path);
        self
    }

    /// Of a text `PATH: MESSAGE`; one that names no path is about the whole.
    pub(super) fn of_text(text: &str) -> Self {
        match text.split_once(": ") {
            Some((path, message)) if path.starts_with('$') => Self::new(path, message),
            _ => Self::new("$", text),
        }
    }
}

/// What was found in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) faults: Vec<Remark>,
    pub(super) warnings: Vec<Remark>,
}

/// What is said of one file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    file: String,
    usable: bool,
    faults: Vec<Remark>,
    warnings: Vec<Remark>,
}

impl Report {
    /// Reads the file and has `check` look into it.
    pub(super) fn of(file: &Path, check: impl FnOnce(&[u8]) -> Findings) -> Self {
        let found = match std::fs::read(file) {
            Ok(bytes) => check(&bytes),
            Err(error) => Findings {
                faults: vec![Remark::new("$", format!("cannot be read: {error}"))],
                warnings: Vec::new(),
            },
        };
        Self {
            file: file.display().to_string(),
            usable: found.faults.is_empty(),
            faults: found.faults,
            warnings: found.warnings,
        }
    }

    pub(super) const fn is_usable(&self) -> bool {
        self.usable
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = OneLine(&self.file);
        for fault in &self.faults {
            writeln!(f, "{file}: {}", OneLine(fault))?;
        }
        for warning in &self.warnings {
            writeln!(f, "{file}: warning: {}", OneLine(warning))?;
        }
        if self.usable {
            writeln!(f, "{file}: ok")?;
        }
        Ok(())
    }
}

/// A path repeats names of the document, and those may have any character in them: to be written as
/// one line.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}
