//! The result of checking one file.

use std::fmt;
use std::path::Path;

use reattempt::config::Fault;
use reattempt_lab::lint::Finding;
use serde::{Serialize, Serializer};

use super::detect;
use super::findings::Findings;
use super::kinds::Kind;
use crate::printable::OneLine;

/// A fault or a warning as JSON.
#[derive(Serialize)]
struct Remark<'a> {
    path: &'a str,
    message: &'a str,
}

fn remarks<S: Serializer>(faults: &[Fault], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(faults.iter().map(|fault| Remark {
        path: &fault.path,
        message: &fault.what,
    }))
}

/// The report on one file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    file: String,
    /// `None` of a file whose kind is unknown.
    kind: Option<Kind>,
    usable: bool,
    #[serde(serialize_with = "remarks")]
    faults: Vec<Fault>,
    #[serde(serialize_with = "remarks")]
    warnings: Vec<Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<Finding>>,
    /// Warnings and findings fail, too.
    #[serde(skip)]
    strict: bool,
}

impl Report {
    /// Reads the file, finds its kind unless it was `said`, and runs `check` on it.
    pub(super) fn of(
        file: &Path,
        said: Option<Kind>,
        strict: bool,
        check: impl FnOnce(Kind, &[u8]) -> Findings,
    ) -> Self {
        let (kind, found) = match crate::input::read(file) {
            Ok(bytes) => match said.map_or_else(|| detect::kind(&bytes), Ok) {
                Ok(kind) => (Some(kind), check(kind, &bytes)),
                Err(refused) => (None, Findings::one_fault(refused)),
            },
            Err(error) => (
                said,
                Findings::one_fault(format!("cannot be read: {error}")),
            ),
        };
        Self {
            file: file.display().to_string(),
            kind,
            usable: found.faults.is_empty(),
            faults: found.faults,
            warnings: found.warnings,
            findings: found.lint,
            strict,
        }
    }

    pub(super) fn passes(&self) -> bool {
        let findings = self.findings.as_ref().is_none_or(Vec::is_empty);
        self.usable && (!self.strict || (self.warnings.is_empty() && findings))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path contains names from the document, which may have any character.
        let file = OneLine(&self.file);
        let kind = self
            .kind
            .map_or(String::new(), |kind| format!(" ({})", kind.name()));
        for fault in &self.faults {
            writeln!(f, "{file}: {}{kind}", OneLine(fault))?;
        }
        for warning in &self.warnings {
            writeln!(f, "{file}: warning: {}{kind}", OneLine(warning))?;
        }
        for Finding {
            rule,
            path,
            text,
            evidence,
            ..
        } in self.findings.iter().flatten()
        {
            let path = OneLine(path);
            writeln!(
                f,
                "{file}: finding: {path}: {text} ({rule}; {evidence}){kind}"
            )?;
        }
        match (self.usable, self.passes()) {
            (true, true) => writeln!(f, "{file}: ok{kind}"),
            (true, false) => writeln!(f, "{file}: fails by --strict{kind}"),
            (false, _) => Ok(()),
        }
    }
}
