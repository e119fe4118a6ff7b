//! Who learns how a response ends that has begun.

use std::sync::Arc;
use std::time::Duration;

use super::{CallLog, CallState, LEARNS, SENT_MASK};
use crate::call::attempt_bits::{AttemptBits, STEPS};
use crate::clock;
use crate::policy::admission::{Admission, Criticality, is_accepted};
use crate::policy::health::{Open, Outcome};
use crate::sync::Ordering;
use crate::{Failure, StopReason, Verdict};

/// What learns from the end of a response. If the response is dropped before its end, it learns
/// no more than that.
#[derive(Debug)]
pub(crate) enum AtEnd {
    /// Its backend, or its circuit breaker.
    Health(Open),
    /// The admission of the call, which counted it at this time.
    Admission(Arc<Admission>, Criticality, Duration),
}

/// How often an attempt was sent by a layer that follows a redirect, for example, as far as layers
/// follow its responses.
#[derive(Debug)]
pub(super) struct Step {
    attempt: u32,
    number: u8,
    /// Its response is over for all callers.
    is_left: bool,
}

/// Whose end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndOf {
    Attempt(u32),
    /// The committed response's.
    Call,
}

impl AtEnd {
    /// Whether the server had accepted a call whose response failed like this at its end.
    fn accepted(&self, failure: &Failure) -> Option<bool> {
        match self {
            Self::Admission(admission, ..) if admission.is_ignored(failure) => None,
            _ => is_accepted(failure),
        }
    }

    fn ended(self, verdict: &Verdict) {
        let accepted = verdict.failure().and_then(|failure| self.accepted(failure));
        match self {
            Self::Health(open) => open.ended(clock::now(), Outcome::of(verdict)),
            Self::Admission(admission, criticality, counted) => {
                if accepted == Some(false) {
                    admission.was_not_accepted(counted, criticality);
                }
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

    /// A response of this attempt that was waited for is over for all callers: another layer that
    /// follows the attempt from now on follows another response.
    fn left(&mut self, attempt: u32) {
        match self.steps.iter_mut().find(|step| step.attempt == attempt) {
            Some(step) => step.is_left = true,
            None => self.steps.push(Step {
                attempt,
                number: 0,
                is_left: true,
            }),
        }
    }

    /// A layer follows this attempt from now on: the number of its step.
    fn follows(&mut self, attempt: u32) -> u8 {
        let mut steps = self.steps.iter_mut();
        let Some(step) = steps.find(|step| step.attempt == attempt) else {
            return 0;
        };
        if std::mem::take(&mut step.is_left) {
            step.number = (step.number + 1) % STEPS;
        }
        step.number
    }

    fn is_last(&self, attempt: u32, step: u8) -> bool {
        let mut steps = self.steps.iter();
        let last = steps.find(|step| step.attempt == attempt);
        last.map_or(0, |step| step.number) == step
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

    /// Whether the server accepted a call whose response is committed. If a layer follows the
    /// response and it has not ended, the call counts as accepted until this learns from its end: a
    /// stream may be open for hours, and its caller may drop it.
    pub(crate) fn accepted_at_end(&self, learns: AtEnd) -> bool {
        let sent = (self.progress() & SENT_MASK) as u32;
        // Its end takes this lock too: it is either seen here, or finds what is stored here.
        self.in_log(|log| {
            if self.slots.is_end_awaited(sent) {
                self.begun(log).at_end.push((EndOf::Call, learns));
                return true;
            }
            let mut records = log.iter().flat_map(|log| log.info.records.iter().rev());
            let record = records.find(|record| record.stopped == Some(StopReason::Committed));
            let failure = record.and_then(|record| record.failure.as_ref());
            failure
                .and_then(|failure| learns.accepted(failure))
                .unwrap_or(true)
        })
    }

    /// A layer follows the response that this attempt gets now. Returns the number of its step: the
    /// attempt may have had another response before.
    pub(crate) fn follows(&self, attempt: u32) -> u8 {
        if !self.has_learners() {
            return 0;
        }
        self.sent_on(attempt);
        let step = self.in_log(|log| Some(log.as_deref_mut()?.follows(attempt)));
        step.unwrap_or_default()
    }

    /// A response that was followed ended. True if it was committed and open until now. Those that
    /// wait for its end learn from it also if it was not: without a recovery layer, or while a
    /// layer in between reads it.
    pub(crate) fn ended(&self, attempt: AttemptBits, verdict: &Verdict) -> bool {
        let (number, step) = (attempt.attempt(), attempt.step());
        let (was_open, mut next) = self.in_log(|log| {
            // A response of an earlier step, which no caller got, and which may end late.
            if !log.as_deref().is_none_or(|log| log.is_last(number, step)) {
                return (false, None);
            }
            let was_open = self.conclude(log, attempt, verdict);
            let next = log.as_deref_mut();
            let next = next.and_then(|log| log.take_end(number, was_open));
            (was_open, next)
        });
        // One by one, so that the list keeps its memory. They may run listeners, which are user
        // code, outside of the lock.
        while let Some(learns) = next {
            learns.ended(verdict);
            next = self.in_log(|log| log.as_deref_mut()?.take_end(number, was_open));
        }
        was_open
    }

    /// The attempt is sent, and perhaps was before: its server answered then, and no caller gets
    /// the rest of that response.
    #[inline]
    pub(crate) fn sent_on(&self, attempt: u32) {
        if self.has_learners() && self.ends(attempt, Some(&Verdict::Success)) {
            self.write(|log| log.left(attempt));
        }
    }

    /// What waits for the end of this attempt's response learns this instead, or nothing. True if
    /// anything did.
    #[cold]
    pub(crate) fn ends(&self, attempt: u32, verdict: Option<&Verdict>) -> bool {
        // One by one and outside of the lock, as in `ended`.
        let next = || self.in_log(|log| log.as_deref_mut()?.take_end(attempt, false));
        let mut any = false;
        while let Some(learns) = next() {
            any = true;
            if let Some(verdict) = verdict {
                learns.ended(verdict);
            }
        }
        any
    }

    /// What the last attempt that no circuit breaker refused failed with; the refusal, if all were
    /// refused.
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        self.read(|log| {
            let failures = || log.info.records.iter().rev().filter_map(|r| r.failure);
            failures()
                .find(|failure| !failure.was_refused())
                .or_else(|| failures().next())
        })?
    }

    /// The same of a call that ended at its deadline; `None` if that cut an attempt off.
    pub(crate) fn failure_before_deadline(&self) -> Option<Failure> {
        self.read(|log| log.info.records.last()?.failure)
            .flatten()?;
        self.last_failure()
    }
}
