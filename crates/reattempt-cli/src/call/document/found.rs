//! The faults and warnings of a document.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use reattempt::config::{Fault, Faults, Form, Unreadable};

use crate::printable::{OneLine, complain};

/// A document may be as long and as deep as its parts; a policy has bounds of its own.
pub(super) const FORM: Form = Form {
    longest: usize::MAX,
    deepest: usize::MAX,
    refusal: |unreadable| match unreadable {
        Unreadable::NotJson { problem, .. } => problem.clone(),
        other => other.to_string(),
    },
    ..Form::new("the document")
};

const MOST_FAULTS: usize = 100;

/// A document may have a member that is not known in each of very many calls.
const MOST_WARNINGS: usize = 100;

/// The faults and warnings of one document so far, shared by all its objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    faults: Rc<RefCell<Vec<Fault>>>,
    warnings: Rc<RefCell<Warnings>>,
}

#[derive(Debug, Default)]
struct Warnings {
    first: Vec<String>,
    /// How many there were after those.
    more: usize,
}

impl Found {
    /// Records a fault, unless it follows from an earlier one: at the same path, or below it. One
    /// line has at most a hundred.
    pub(crate) fn add(&self, fault: Fault) {
        if self.faults.borrow().len() < MOST_FAULTS && !self.has(&fault.path) {
            self.faults.borrow_mut().push(fault);
        }
    }

    /// Whether there is a fault at this path, or above it.
    pub(super) fn has(&self, path: &str) -> bool {
        let is_above = |fault: &Fault| {
            let below = path.strip_prefix(&fault.path);
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        };
        self.faults.borrow().iter().any(is_above)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    pub(super) fn add_all(&self, faults: &Faults, below: &str) {
        let faults = faults.faults().iter().cloned();
        faults.for_each(|fault| self.add(fault.below(below)));
    }

    /// Records a warning, for [`check`](Self::check): a name may begin no line of its own.
    pub(crate) fn warn(&self, warning: impl fmt::Display) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.first.len() < MOST_WARNINGS {
            warnings.first.push(OneLine(warning).to_string());
        } else {
            warnings.more += 1;
        }
    }

    /// The value, unless there is a fault, as there is if there is no value. A document with faults
    /// has one line for them, and no warnings.
    pub(crate) fn check<T>(&self, made: Option<T>) -> Result<T, Faults> {
        let (faults, warnings) = (self.faults.take(), self.warnings.take());
        let Some(made) = made.filter(|_| faults.is_empty()) else {
            return Err(Faults::new(FORM.subject, faults));
        };
        // Not in the log, which its filter may turn off.
        for warning in warnings.first {
            complain!("reattempt call: warning: {warning}");
        }
        if warnings.more > 0 {
            complain!("reattempt call: warning: and {} more", warnings.more);
        }
        Ok(made)
    }
}
