//! The effects of a layer: on the context of a call, its log and the observer.

use std::time::Instant;

mod dropped;
mod ended;
mod hedged;
#[cfg(feature = "tokio")]
mod no_end;
mod passed;

use crate::call::state::CallState;
use crate::driver::RetryDriver;
use crate::info::AttemptRecord;
use crate::machine::{Action, Facts, FailedAttempt};
use crate::{CallContext, Observer, RetryStrategy, RetryThrottle, StopReason};

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
    /// The attempt takes no more reports: what the context knows of it.
    pub(crate) fn facts(&self, now: Instant) -> Facts {
        let report = self.context.end_attempt();
        Facts {
            report,
            other_backend: report.circuit_open && self.context.was_let_through_elsewhere(),
            transparent: self.transparent,
            idempotent: self.context.idempotency().is_idempotent(),
            deadline: self.context.deadline(),
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
            if let Some(observer) = self.observer.filter(|observer| observer.sees_success()) {
                observer.first_succeeded(self.context, committed);
            }
        }
    }

    #[cold]
    fn record_success(&self, committed: bool) {
        if let Some(state) = self.context.shared() {
            let mut record = self.context.success_record(committed);
            self.record(&mut record);
            if let Some(stopped) = record.stopped {
                self.observe_end(state, stopped);
            }
        }
    }

    /// The throttle that applies to the call.
    pub(crate) fn throttle(&self) -> Option<&'a dyn RetryThrottle> {
        self.context.throttle().map(|throttle| &**throttle)
    }

    /// An attempt failed: what follows.
    pub(crate) fn failed(
        &self,
        driver: &mut RetryDriver,
        failed: &mut FailedAttempt,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        let action = driver.failed(failed, strategy, self.throttle(), self.context);
        if !matches!(action, Action::Ask(_)) {
            self.settled(&mut failed.record);
        } else if let Some(state) = self.context.shared() {
            // The deadline may pass before the decision, and before the record.
            state.remember_lost(&failed.record);
        }
        action
    }

    /// An attempt ended, and the call with it if the record says why no other follows.
    pub(crate) fn settled(&self, record: &mut AttemptRecord) {
        self.record(record);
        if let Some(stopped) = record.stopped {
            self.ended(stopped);
        }
    }

    /// An attempt ended. Its record gets what only the call knows.
    pub(crate) fn record(&self, record: &mut AttemptRecord) {
        if let Some(state) = self.context.shared() {
            record.backend = state.backend_of(self.context.attempt());
            #[cfg(feature = "tokio")]
            if state.has_learners() {
                self.no_end_of(record);
            }
            state.record(record);
        }
        // Last, so that a panic in it loses no record.
        if let Some(observer) = self.observer {
            observer.attempt_settled(self.context, record);
        }
    }

    fn observe_end(&self, state: &CallState, stopped: StopReason) {
        if let Some(observer) = self.observer {
            if observer.sees_end(stopped) {
                observer.call_ended(self.context, &state.info());
            }
        }
    }
}
