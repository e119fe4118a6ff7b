//! What is wrong with a service config: every fault with its JSON path.

use std::fmt;

/// One fault, or one warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// Where: a JSON path such as `$.methodConfig[0].retryPolicy.maxAttempts`.
    pub path: String,
    /// What is allowed there, and what was found.
    pub what: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// A service config that cannot be used, with every fault there is (A21: one invalid field rejects the whole).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServiceConfig {
    pub(super) faults: Vec<ConfigFault>,
}

impl InvalidServiceConfig {
    /// The faults, in the order of the text; never empty.
    #[must_use]
    pub fn faults(&self) -> &[ConfigFault] {
        &self.faults
    }
}

impl fmt::Display for InvalidServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the service config cannot be used")?;
        for (at, fault) in self.faults.iter().enumerate() {
            let before = if at == 0 { ": " } else { "; " };
            write!(f, "{before}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidServiceConfig {}

/// All that was found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) faults: Vec<ConfigFault>,
    pub(super) warnings: Vec<ConfigFault>,
}

/// A place in the document, at which faults are noted.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    path: String,
    found: &'a mut Found,
}

impl<'a> Faults<'a> {
    pub(super) fn root(found: &'a mut Found) -> Self {
        Self {
            path: "$".to_owned(),
            found,
        }
    }

    fn inside(&mut self, path: String) -> Faults<'_> {
        Faults {
            path,
            found: self.found,
        }
    }

    pub(super) fn field(&mut self, name: &str) -> Faults<'_> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let path = if plain && !name.is_empty() {
            format!("{}.{name}", self.path)
        } else {
            format!("{}[{name:?}]", self.path)
        };
        self.inside(path)
    }

    pub(super) fn index(&mut self, at: usize) -> Faults<'_> {
        let path = format!("{}[{at}]", self.path);
        self.inside(path)
    }

    pub(super) fn wrong(&mut self, what: &str) {
        self.found.faults.push(ConfigFault {
            path: self.path.clone(),
            what: what.to_owned(),
        });
    }

    pub(super) fn warn(&mut self, what: &str) {
        self.found.warnings.push(ConfigFault {
            path: self.path.clone(),
            what: what.to_owned(),
        });
    }
}
