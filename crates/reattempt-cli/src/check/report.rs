//! The result of checking one file.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::printable::OneLine;

/// One fault or warning, with its path.
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

    /// The same remark for a document nested at this path.
    pub(super) fn below(mut self, path: &str) -> Self {
        self.path.replace_range(..1, path);
        self
    }

    /// From a text `PATH: MESSAGE`; without a path it concerns the whole document.
    pub(super) fn of_text(text: &str) -> Self {
        match text.split_once(": ") {
            Some((path, message)) if path.starts_with('$') => Self::new(path, message),
            _ => Self::new("$", text),
        }
    }
}

/// The findings of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) faults: Vec<Remark>,
    pub(super) warnings: Vec<Remark>,
}

/// The report on one file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    file: String,
    usable: bool,
    faults: Vec<Remark>,
    warnings: Vec<Remark>,
}

impl Report {
    /// Reads the file and runs `check` on it.
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

/// A path contains names from the document, which may have any character, so it is escaped to one
/// line.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}
