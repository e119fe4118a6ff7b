//! The effects of a layer: on the context of a call, its log and the observer.

use std::time::Instant;

#[cfg(feature = "tokio")]
mod no_end;
mod passed;

use crate::call::state::CallState;
use crate::driver::{CallEffects, count_unsuccessful};
use crate::info::{AttemptRecord, Backend};
use crate::machine::Facts;
use crate::policy::strategy::CallView;
use crate::{AttemptOutcome, CallContext, CallDeadline, Observer, RetryThrottle, StopReason};

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

    /// An attempt succeeded, or its response began. Reads no clock, and on the first attempt of an
    /// unobserved call writes two atomics.
    #[inline]
    pub(crate) fn succeeded(&self, committed: bool) {
        // The first attempt of several may succeed too. Then the records of the others need this
        // one beside them.
        if self.context.shared().is_some_and(CallState::sent_several) {
            self.context.settle_recovery(committed);
            self.record_success(committed);
        } else {
            self.context.settle_success(committed);
            if let Some(observer) = self.observer {
                observer.first_succeeded(self.context, committed);
            }
        }
    }

    #[cold]
    fn record_success(&self, committed: bool) {
        if self.context.shared().is_some() {
            let record = self.context.success_record(committed);
            let stopped = record.stopped;
            self.record(record);
            self.ended(stopped.unwrap_or(StopReason::Success));
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
        if let Some(throttle) = self.throttle() {
            count_unsuccessful(throttle, self.context.attempt());
        }
        if self.context.shared().is_some() {
            self.close_slot();
            let (attempt, kind) = (self.context.attempt(), self.context.kind());
            let mut record = AttemptRecord::new(attempt, kind, AttemptOutcome::Cancelled);
            record.stopped = stopped;
            self.record(record);
        }
    }
}

impl CallEffects for Effects<'_> {
    fn throttle(&self) -> Option<&dyn RetryThrottle> {
        self.context.throttle().map(|throttle| &**throttle)
    }

    fn limit(&self) -> Option<CallDeadline> {
        self.context.limit()
    }

    fn attempt(&self) -> u32 {
        self.context.attempt()
    }

    fn backend(&self) -> Option<Backend> {
        self.context.backend()
    }

    fn view(&self) -> &dyn CallView {
        self.context
    }

    fn close_slot(&self) {
        if let Some(state) = self.context.shared() {
            state.settled(self.context.key());
        }
    }

    fn record(&self, mut record: AttemptRecord) {
        record.backend = self.backend();
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
            #[cfg(feature = "tokio")]
            if state.has_learners() {
                self.no_end_of(&record);
            }
            state.record(record, reason);
        }
    }

    fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        if let Some(state) = self.context.shared() {
            state.amend(attempt, change);
        }
    }

    fn hedge_refused(&self, stopped: StopReason) {
        if let Some(state) = self.context.shared() {
            state.refused(stopped);
        }
        if let Some(observer) = self.observer {
            observer.hedge_refused(self.context, stopped);
        }
    }

    fn ended(&self, stopped: StopReason) {
        let Some(state) = self.context.shared() else {
            return;
        };
        state.stop(stopped);
        // The log's lock orders this after a waiter that is stored at the same time.
        if state.is_logged() {
            state.drop_waiters();
        }
        if let Some(observer) = self.observer {
            if observer.sees_end(stopped) {
                observer.call_ended(self.context, &state.info());
            }
        }
    }
}
