//! Who learns how a response ends that has begun.

use std::sync::Arc;

use super::log::CallLog;
use super::{CallState, LEARNS, SENT_MASK};
use crate::call::attempts::AttemptKey;
use crate::clock;
use crate::policy::admission::{Admission, Criticality, is_accepted};
use crate::policy::health::{Open, Outcome};
use crate::sync::Ordering;
use crate::{AttemptKind, Failure, StopReason, Verdict};

/// What learns from the end of a response. If the response is dropped before its end, it learns
/// nothing.
#[derive(Debug)]
pub(crate) enum AtEnd {
    /// Its backend, or its circuit breaker.
    Health(Open),
    /// The admission of the call.
    Admission(Arc<Admission>, Criticality),
}

/// Whose end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndOf {
    Attempt(u32),
    /// The committed response's.
    Call,
}

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

impl CallLog {
    /// One of those that learn from the end of this attempt, or also from the call's.
    pub(super) fn take_end(&mut self, attempt: u32, of_call: bool) -> Option<AtEnd> {
        let learns = |of: EndOf| of == EndOf::Attempt(attempt) || of_call && of == EndOf::Call;
        let at = self.at_end.iter().position(|(of, _)| learns(*of))?;
        Some(self.at_end.swap_remove(at).1)
    }
}

impl CallState {
    /// For an attempt whose response has begun and is followed.
    pub(crate) fn at_end_of(&self, attempt: u32, learns: AtEnd) {
        self.write(|log| log.at_end.push((EndOf::Attempt(attempt), learns)));
        self.flags.fetch_or(LEARNS, Ordering::Relaxed);
    }

    /// Whether something waits for the end of an attempt's response, or has done so.
    #[inline]
    pub(crate) fn has_learners(&self) -> bool {
        self.has(LEARNS)
    }

    /// Whether the server accepted a call whose response is committed. `None` if a layer follows
    /// the response and it has not ended: then this learns from its end.
    pub(crate) fn accepted_at_end(&self, learns: impl FnOnce() -> AtEnd) -> Option<bool> {
        let sent = (self.progress() & SENT_MASK) as u32;
        // Its end takes this lock too: it is either seen here, or finds what is stored here.
        self.in_log(|log| {
            if self.slots.is_end_awaited(sent) {
                self.begun(log).at_end.push((EndOf::Call, learns()));
                return None;
            }
            let mut records = log.iter().flat_map(|log| log.info.records.iter().rev());
            let record = records.find(|record| record.stopped == Some(StopReason::Committed));
            let failure = record.and_then(|record| record.failure.as_ref());
            Some(failure.is_none_or(is_accepted))
        })
    }

    /// A response that was followed ended. True if it was committed and open until now. Those that
    /// wait for its end learn from it also if it was not: without a recovery layer, or while a
    /// layer in between reads it.
    pub(crate) fn ended(
        &self,
        attempt: (AttemptKey, AttemptKind),
        end: Result<(), (&Failure, bool)>,
    ) -> bool {
        let number = attempt.0.attempt;
        let (was_open, mut next) = self.in_log(|log| {
            let was_open = self.conclude(log, attempt, end);
            let next = log.as_deref_mut();
            (
                was_open,
                next.and_then(|log| log.take_end(number, was_open)),
            )
        });
        // One by one, so that the list keeps its memory. They may run listeners, which are user
        // code, outside of the lock.
        while let Some(learns) = next {
            learns.ended(end);
            next = self.in_log(|log| log.as_deref_mut()?.take_end(number, was_open));
        }
        was_open
    }

    /// The attempt is sent, and perhaps was before: what began then says nothing more.
    #[inline]
    pub(crate) fn sent_on(&self, attempt: u32) {
        if self.has_learners() {
            self.no_end_of(attempt, None);
        }
    }

    /// No caller gets the response of this attempt that has begun: what waits for its end learns
    /// the failure instead, or nothing.
    #[cold]
    pub(crate) fn no_end_of(&self, attempt: u32, instead: Option<(&Failure, bool)>) {
        // One by one and outside of the lock, as in `ended`.
        let next = || self.in_log(|log| log.as_deref_mut()?.take_end(attempt, false));
        while let Some(learns) = next() {
            if let Some(failure) = instead {
                learns.ended(Err(failure));
            }
        }
    }
}
