//! Applies what the machines decide, for both recovery layers: throttle, records, observer.
//!
//! The machines return what to do and what to record. This module asks and charges the throttle,
//! writes the records and calls the observer. User code runs outside of the log's lock.

mod hedge;
mod retry;

use std::time::Instant;

pub(crate) use hedge::{HedgeDriver, Permit};
pub(crate) use retry::RetryDriver;

use crate::call::state::CallState;
use crate::info::AttemptRecord;
use crate::machine::{Facts, FailedAttempt};
use crate::policy::throttle::Settled;
use crate::{AttemptOutcome, CallContext, Failure, Observer, RetryThrottle, StopReason, Verdict};

/// The effects on one attempt's call: its context, and what the layer was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects<'a> {
    /// The context of the attempt.
    pub(crate) context: &'a CallContext,
    /// Transparent retries are switched on.
    pub(crate) transparent: bool,
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl<'a> Effects<'a> {
    /// What the context knows of its attempt, which ends now.
    pub(crate) fn facts(&self, now: Instant) -> Facts {
        Facts {
            report: self.context.report(),
            transparent: self.transparent,
            idempotent: self.context.idempotency().is_idempotent(),
            limit: self.context.limit(),
            ..Facts::new(now, self.context.attempt(), self.context.kind())
        }
    }

    fn throttle(&self) -> Option<&'a dyn RetryThrottle> {
        self.context.throttle().map(|throttle| &**throttle)
    }

    /// The throttle counts a failed attempt. Returns its fill.
    fn count(&self, failed: &FailedAttempt) -> Option<u64> {
        let throttle = self.throttle().filter(|_| failed.is_for_throttle())?;
        if failed.counts() {
            throttle.settled(Settled::Failure(failed.failure()));
        }
        throttle.milli_tokens()
    }

    /// Whether the throttle allows one more attempt. `None` is a hedge that no failure led to.
    fn allows(&self, failure: Option<&Failure>) -> bool {
        self.throttle()
            .is_none_or(|throttle| throttle.allows(failure))
    }

    /// The throttle spends for an attempt that is about to be sent. False if it refuses.
    fn spend(&self, failure: Option<&Failure>) -> bool {
        let Some(throttle) = self.throttle() else {
            return true;
        };
        let spent = throttle.spend(failure);
        if let (true, Some(failure), Some(state)) = (spent, failure, self.context.shared()) {
            state.permitted(failure);
        }
        spent
    }

    /// Refunds what was spent for a retry that was not sent.
    fn refund(&self) {
        let spent_after = self.context.shared().and_then(CallState::last_permitted);
        if let (Some(failure), Some(throttle)) = (spent_after, self.throttle()) {
            throttle.refund(Some(&failure));
        }
    }

    /// The attempt's slot takes no more reports.
    fn close_slot(&self) {
        if let Some(state) = self.context.shared() {
            state.settled(self.context.seat());
        }
    }

    /// Records a failed attempt.
    fn record_failure(&self, mut record: AttemptRecord, milli_tokens: Option<u64>) {
        record.milli_tokens = milli_tokens;
        record.backend = self.context.backend();
        self.record(record);
    }

    fn record(&self, record: AttemptRecord) {
        if let Some(observer) = self.observer {
            observer.attempt_settled(self.context, &record);
        }
        if let Some(state) = self.context.shared() {
            // A final failure is no reason to retry.
            let retryable = record.outcome == AttemptOutcome::Retry;
            let reason = record
                .failure
                .filter(|_| retryable)
                .map(|failure| failure.reason);
            state.record(record, reason);
        }
    }

    /// Changes the record of an attempt that failed before.
    fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        if let Some(state) = self.context.shared() {
            state.amend(attempt, change);
        }
    }

    /// The delay after this attempt ended early: its record gets the time that was really waited.
    fn waited_until(&self, now: Instant) {
        self.amend(self.context.attempt(), |record| {
            if let (Some(_), Some(ended)) = (record.delay, record.ended) {
                record.delay = Some(now.saturating_duration_since(ended));
            }
        });
    }

    /// An attempt succeeded, or its response began. Reads no clock, and on the first attempt of an
    /// unobserved call writes two atomics.
    #[inline]
    pub(crate) fn succeeded(&self, committed: bool) {
        let sees = |observer: &&dyn Observer| observer.sees_success();
        // The first attempt of several may succeed too. Then the records of the others need this
        // one beside them.
        let one_of_several = self.context.shared().is_some_and(CallState::sent_several);
        if one_of_several {
            self.context.settle_recovery(committed);
        } else {
            self.context.settle_success(committed);
        }
        if one_of_several || self.observer.as_ref().is_some_and(sees) {
            self.record_success(committed);
        }
    }

    #[cold]
    fn record_success(&self, committed: bool) {
        let (outcome, stopped) = if committed {
            (AttemptOutcome::Committed, StopReason::Committed)
        } else {
            (AttemptOutcome::Success, StopReason::Success)
        };
        if self.context.shared().is_some() {
            let mut record = self.blank(outcome);
            record.stopped = Some(stopped);
            self.record(record);
            self.ended(stopped);
        }
    }

    fn blank(&self, outcome: AttemptOutcome) -> AttemptRecord {
        let mut record = AttemptRecord::new(self.context.attempt(), self.context.kind(), outcome);
        record.backend = self.context.backend();
        record
    }

    /// A call ended that no recovery layer acts on: it is counted and recorded all the same (A6:
    /// every outgoing RPC changes the token count).
    pub(crate) fn passed(&self, now: Instant, verdict: &Verdict) {
        // Several layers may have passed it through; the innermost counts it, before the others
        // look.
        if let Some(state) = self.context.shared() {
            state.claim();
        }
        let Some(failed) = FailedAttempt::new(self.facts(now), verdict) else {
            return self.succeeded(*verdict == Verdict::Committed);
        };
        let milli_tokens = self.count(&failed);
        let record = failed.record_passed();
        let stopped = record.stopped;
        self.record_failure(record, milli_tokens);
        if let Some(stopped) = stopped {
            self.ended(stopped);
        }
    }

    /// Why a call is dropped at this instant: by the deadline, or else by its caller.
    pub(crate) fn why_dropped(&self, now: Instant) -> StopReason {
        match self.context.limit() {
            Some(limit) if limit.enforced && limit.passed(now) => StopReason::Deadline,
            _ => StopReason::Cancelled,
        }
    }

    /// An attempt was dropped before it ended.
    pub(crate) fn cancelled(&self, stopped: Option<StopReason>) {
        if self.context.shared().is_some() {
            self.close_slot();
            let mut record = self.blank(AttemptOutcome::Cancelled);
            record.stopped = stopped;
            self.record(record);
        }
    }

    /// A planned hedge was refused. No attempt was made, so no record shows it.
    fn refused(&self, stopped: StopReason) {
        if let Some(state) = self.context.shared() {
            state.refused(stopped);
        }
        if let Some(observer) = self.observer {
            observer.hedge_refused(self.context, stopped);
        }
    }

    /// The call ended for this reason.
    pub(crate) fn ended(&self, stopped: StopReason) {
        let Some(state) = self.context.shared() else {
            return;
        };
        state.stop(stopped);
        if state.is_logged() {
            state.drop_waiters();
        }
        if let Some(observer) = self.observer {
            observer.call_ended(self.context, &state.info());
        }
    }
}
