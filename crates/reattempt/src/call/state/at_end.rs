//! Who learns how a committed response ends.

use std::sync::Arc;

use super::{CallState, SENT_MASK};
use crate::clock;
use crate::policy::admission::{Admission, Criticality, is_accepted};
use crate::policy::health::{Open, Outcome};
use crate::{Failure, Verdict};

/// What learns from the end of a committed response. If the response is dropped before its end, it
/// learns nothing.
#[derive(Debug)]
pub(crate) enum AtEnd {
    /// Its backend, or its circuit breaker.
    Health(Open),
    /// The admission of the call.
    Admission(Arc<Admission>, Criticality),
}

/// In place of an attempt's number.
const WHOLE_CALL: u32 = 0;

impl AtEnd {
    fn ended(self, end: Result<(), (&Failure, bool)>) {
        match self {
            Self::Health(open) => {
                let verdict = match end {
                    Ok(()) => Verdict::Success,
                    Err((failure, true)) => Verdict::Retry(*failure),
                    Err((failure, false)) => Verdict::Fatal(*failure),
                };
                open.ended(clock::now(), Outcome::of(&verdict));
            }
            Self::Admission(admission, criticality) => {
                let accepted = end.err().is_none_or(|(failure, _)| is_accepted(failure));
                admission.ended(criticality, accepted);
            }
        }
    }
}

impl CallState {
    /// For an attempt whose response is committed and followed.
    pub(crate) fn at_end_of(&self, attempt: u32, learns: AtEnd) {
        self.write(|log| log.at_end.push((attempt, learns)));
    }

    /// For a call that has a committed response. False if no layer follows it, or if it has ended.
    pub(crate) fn at_end_of_call(&self, learns: impl FnOnce() -> AtEnd) -> bool {
        let is_awaited = self
            .slots
            .is_end_awaited((self.progress() & SENT_MASK) as u32);
        if is_awaited {
            self.at_end_of(WHOLE_CALL, learns());
        }
        is_awaited
    }

    /// A committed response ended.
    pub(crate) fn ended(&self, attempt: u32, end: Result<(), (&Failure, bool)>) {
        if !self.is_logged() {
            return;
        }
        // One by one, so that the list keeps its memory. They may run listeners, which are user
        // code, outside of the lock.
        let next = || {
            self.write(|log| {
                let of = |(n, _): &(u32, AtEnd)| *n == attempt || *n == WHOLE_CALL;
                let at = log.at_end.iter().position(of)?;
                Some(log.at_end.swap_remove(at).1)
            })
        };
        while let Some(learns) = next() {
            learns.ended(end);
        }
    }
}
