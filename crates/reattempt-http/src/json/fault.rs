//! The faults of a document, each with its JSON path.

use std::fmt;

/// One fault, or one warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: a JSON path such as `$.methodConfig[0].retryPolicy.maxAttempts`.
    pub path: String,
    /// What is allowed there, and what was found.
    pub what: String,
    advice: bool,
}

impl Fault {
    /// True for a warning about a valid setting that deserves attention: it can amplify load, or a
    /// limit caps it. False if something has no effect.
    #[must_use]
    pub const fn is_advice(&self) -> bool {
        self.advice
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// A document that cannot be used, with all its faults; one fault rejects the whole document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    pub(super) subject: &'static str,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
}

impl Faults {
    /// The faults, in document order; never empty. At most the first ten thousand, and then the
    /// number of the others.
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

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used", self.subject)?;
        for (at, fault) in self.faults.iter().enumerate() {
            let before = if at == 0 { ": " } else { "; " };
            write!(f, "{before}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// The faults and warnings so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    /// Faults beyond the maximum that is reported.
    untold: usize,
}

/// The maximum of faults reported one by one: a hostile document has one in every second byte.
const MOST_FAULTS: usize = 10_000;

impl Found {
    pub(super) fn rejecting(mut self, subject: &'static str) -> Faults {
        if self.untold > 0 {
            let untold = self.untold;
            self.faults.push(Fault {
                path: "$".to_owned(),
                what: format!("has {untold} more faults than are listed"),
                advice: false,
            });
        }
        Faults {
            subject,
            faults: self.faults,
            warnings: self.warnings,
        }
    }
}

/// The maximum length of a member's name in a path, in characters. Many faults may occur below one
/// name, and each has its path.
const LONGEST_NAME: usize = 64;

/// A position in the document where faults are recorded.
#[derive(Debug)]
pub struct Place<'a> {
    path: String,
    found: &'a mut Found,
}

impl<'a> Place<'a> {
    pub(super) fn root(found: &'a mut Found) -> Self {
        Self {
            path: "$".to_owned(),
            found,
        }
    }

    fn inside(&mut self, path: String) -> Place<'_> {
        Place {
            path,
            found: self.found,
        }
    }

    /// The member with this name of the object at this position.
    pub fn field(&mut self, name: &str) -> Place<'_> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let path = if let Some((cut, _)) = name.char_indices().nth(LONGEST_NAME) {
            format!("{}[{:?}]", self.path, format!("{}…", &name[..cut]))
        } else if plain && !name.is_empty() {
            format!("{}.{name}", self.path)
        } else {
            format!("{}[{name:?}]", self.path)
        };
        self.inside(path)
    }

    /// The item with this index of the array at this position.
    pub fn index(&mut self, at: usize) -> Place<'_> {
        let path = format!("{}[{at}]", self.path);
        self.inside(path)
    }

    /// Its JSON path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Records a fault.
    pub fn wrong(&mut self, what: &str) {
        if self.found.faults.len() == MOST_FAULTS {
            self.found.untold += 1;
            return;
        }
        let fault = self.fault(what, false);
        self.found.faults.push(fault);
    }

    /// Records a warning that something has no effect; it does not reject the document.
    pub fn warn(&mut self, what: &str) {
        let warning = self.fault(what, false);
        self.found.warnings.push(warning);
    }

    /// Records a warning about a valid setting that deserves attention.
    pub fn advise(&mut self, what: &str) {
        let warning = self.fault(what, true);
        self.found.warnings.push(warning);
    }

    fn fault(&self, what: &str, advice: bool) -> Fault {
        Fault {
            path: self.path.clone(),
            what: what.to_owned(),
            advice,
        }
    }
}
