//! What was found in one document.

use reattempt::config::{Fault, Faults};
use reattempt_lab::lint::Finding;

/// The findings of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    /// What the lab finds, if it was asked.
    pub(super) lint: Option<Vec<Finding>>,
}

impl Findings {
    /// One fault of the whole document.
    pub(super) fn one_fault(what: String) -> Self {
        Self {
            faults: vec![Fault::new("$", what)],
            ..Self::default()
        }
    }

    /// The warnings of a document that can be used, or what is wrong with it.
    pub(super) fn of(read: Result<Vec<Fault>, Faults>) -> Self {
        let (faults, warnings) = match read {
            Ok(warnings) => (Vec::new(), warnings),
            Err(refused) => (refused.faults().to_vec(), refused.warnings().to_vec()),
        };
        Self {
            faults,
            warnings,
            lint: None,
        }
    }
}
