//! The faults of a document, each with its JSON path.

use std::fmt;

use super::Form;

/// One fault, or one warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Fault {
    /// Where: a JSON path such as `$.methodConfig[0].retryPolicy.maxAttempts`.
    pub path: String,
    /// What is allowed there, and what was found.
    pub what: String,
    pub(super) advice: bool,
}

impl Fault {
    /// A fault at this path.
    pub fn new(path: impl Into<String>, what: impl fmt::Display) -> Self {
        Self {
            path: path.into(),
            what: what.to_string(),
            advice: false,
        }
    }

    /// The same fault of a document that stands inside another one, at this path.
    #[must_use]
    pub fn below(mut self, path: &str) -> Self {
        let own = self.path.strip_prefix('$').unwrap_or(&self.path);
        self.path = format!("{path}{own}");
        self
    }

    /// True for a warning about a valid setting that deserves attention: it can amplify load, or a
    /// limit caps it. False if something has no effect.
    #[must_use]
    pub const fn is_advice(&self) -> bool {
        self.advice
    }
}

/// A document that cannot be used, with all its faults; one fault rejects the whole document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} cannot be used: {}", self.listed())]
pub struct Faults {
    subject: &'static str,
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

impl Faults {
    /// These faults of a document that `subject` names.
    #[must_use]
    pub const fn new(subject: &'static str, faults: Vec<Fault>) -> Self {
        Self {
            subject,
            faults,
            warnings: Vec::new(),
        }
    }

    /// The faults on one line.
    #[must_use]
    pub fn listed(&self) -> String {
        let texts: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        texts.join("; ")
    }

    /// As it is displayed, with the first faults alone.
    #[cfg(feature = "tokio")]
    pub(super) fn first_ones(&self) -> String {
        let faults = first_ones(self.faults.iter());
        format!("{} cannot be used: {faults}", self.subject)
    }

    /// The faults, in the order in which the document was read; never empty. Up to the maximum of
    /// its form, and then the number of the others.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The warnings: often a typo explains a fault.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        &self.warnings
    }
}

/// How many faults or warnings stand in one line of the log.
const MOST_LOGGED: usize = 20;

/// Logs, at WARN with the target `reattempt`, what has no effect in a document that `subject`
/// names: for readers whose callers seldom ask for its warnings. Advice is left to `reattempt
/// check`.
pub fn log_warnings(subject: &'static str, warnings: &[Fault]) {
    let warned = first_ones(warnings.iter().filter(|warning| !warning.is_advice()));
    if !warned.is_empty() {
        tracing::warn!(target: "reattempt", "{subject} has warnings: {warned}");
    }
}

/// Faults or warnings on one line of the log: the first ones, and how many more there are.
pub(super) fn first_ones<'a>(mut faults: impl Iterator<Item = &'a Fault>) -> String {
    let first = faults.by_ref().take(MOST_LOGGED);
    let mut texts: Vec<_> = first.map(ToString::to_string).collect();
    let others = faults.count();
    if others > 0 {
        texts.push(format!("and {others} more"));
    }
    texts.join("; ")
}

/// The faults and warnings so far.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) form: Form,
    pub(super) faults: List,
    pub(super) warnings: List,
}

/// As many of them as the form allows, and the number of the others.
#[derive(Debug)]
pub(super) struct List {
    most: usize,
    listed: Vec<Fault>,
    unlisted: usize,
}

impl List {
    const fn of(most: usize) -> Self {
        Self {
            most,
            listed: Vec::new(),
            unlisted: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.unlisted == 0
    }

    pub(super) fn add(&mut self, fault: impl FnOnce() -> Fault) {
        if self.listed.len() == self.most {
            self.unlisted += 1;
        } else {
            self.listed.push(fault());
        }
    }

    /// The list; `of` says what it has more of.
    pub(super) fn into_vec(mut self, of: &str) -> Vec<Fault> {
        if self.unlisted > 0 {
            let what = format!("has {} more {of} than are listed", self.unlisted);
            self.listed.push(Fault::new("$", what));
        }
        self.listed
    }
}

impl Found {
    pub(super) const fn new(form: Form) -> Self {
        Self {
            form,
            faults: List::of(form.most_faults),
            warnings: List::of(form.most_warnings),
        }
    }

    pub(super) fn rejecting(self) -> Faults {
        Faults {
            subject: self.form.subject,
            faults: self.faults.into_vec("faults"),
            warnings: self.warnings.into_vec("warnings"),
        }
    }
}
