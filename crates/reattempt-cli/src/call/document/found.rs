//! The faults and warnings of a document.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use reattempt::config::{Fault, Faults, Form, Unreadable};

use crate::printable::OneLine;

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
        let mut faults = self.faults.borrow_mut();
        let follows = |earlier: &Fault| {
            let below = fault.path.strip_prefix(&earlier.path);
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        };
        if faults.len() < MOST_FAULTS && !faults.iter().any(follows) {
            faults.push(fault);
        }
    }

    /// The last fault, if there is one, to return it.
    pub(crate) fn last(&self) -> Result<(), Fault> {
        self.faults.borrow_mut().pop().map_or(Ok(()), Err)
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

    /// The value, unless there is a fault. A document with faults has one line for them, and no
    /// warnings.
    pub(crate) fn check<T>(&self, made: Result<T, Fault>) -> Result<T, Faults> {
        let made = made.map_err(|fault| self.add(fault)).ok();
        let (faults, warnings) = (self.faults.take(), self.warnings.take());
        let Some(made) = made.filter(|_| faults.is_empty()) else {
            return Err(Faults::new(FORM.subject, faults));
        };
        for warning in warnings.first {
            tracing::warn!("{warning}");
        }
        if warnings.more > 0 {
            tracing::warn!("and {} more", warnings.more);
        }
        Ok(made)
    }
}
