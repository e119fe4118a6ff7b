//! How a call proceeds: it begins, a recovery layer claims it, attempts are sent, one succeeds.

use std::sync::Arc;

use super::{CallContext, CallHandle};
#[cfg(feature = "tokio")]
use crate::call::ResponseFailed;
#[cfg(test)]
use crate::call::marks::CLAIMED;
#[cfg(feature = "tokio")]
use crate::call::marks::MAY_LOSE;
use crate::call::marks::{BEGUN, CALLER};
use crate::call::state::CallState;
use crate::call::states;
use crate::policy::throttle::count_success;
use crate::{AttemptKind, AttemptOutcome, AttemptRecord, AttemptReport, StopReason};
#[cfg(feature = "tokio")]
use crate::{Failure, Verdict};

impl CallContext {
    /// For layers: the call begins, unless it has begun. Returns a handle to it.
    #[inline]
    pub fn begin(&mut self) -> CallHandle {
        self.begun();
        self.attempt.marks.set(BEGUN);
        CallHandle(self.attempt.share())
    }

    /// For layers: true once a recovery layer, above or below, acts on the call.
    #[must_use]
    #[inline]
    pub(crate) fn is_taken_up(&self) -> bool {
        self.shared().is_some_and(CallState::is_claimed)
    }

    /// For recovery layers: true once the end of the call is recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.shared().is_some_and(CallState::is_over)
    }

    #[inline]
    pub(super) fn state(&mut self) -> &CallState {
        self.attempt.state.get_or_insert_with(states::fresh)
    }

    /// The state of the call, which the caller sees from now on.
    #[inline]
    fn begun(&mut self) -> &CallState {
        self.state();
        if self.attempt.marks.has(CALLER) && !self.attempt.marks.has(BEGUN) {
            self.show_to_caller();
        }
        self.state().of_call()
    }

    /// For simulators: this call is acted on; recovery layers pass it through.
    #[cfg(test)]
    pub(crate) fn claim(&mut self) {
        self.begun().claim();
        self.attempt.marks.set(CLAIMED | BEGUN);
    }

    /// For recovery layers: claims the call and makes this the context of its first attempt.
    #[inline]
    pub(crate) fn claim_first(&mut self) {
        self.begun().claim_first();
        self.attempt.marks.claim_first();
    }

    /// For recovery layers that leave the call to another one, which may not exist: what is sent
    /// now is the first attempt.
    pub(crate) fn pass_first(&mut self) {
        self.begun().pass_first();
        self.attempt.marks.pass_first();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline]
    pub(crate) fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        let key = self.begun().sent(number, kind == AttemptKind::Transparent);
        self.attempt.marks.set_attempt(key, kind);
    }

    /// For recovery layers: if this attempt fails, no caller misses it.
    #[cfg(feature = "tokio")]
    pub(crate) const fn allow_to_lose(&mut self) {
        self.attempt.marks.set(MAY_LOSE);
    }

    /// For recovery layers: true if a layer below, and not the server, made the outcome of this
    /// attempt. It then says nothing about the server.
    #[inline]
    pub(crate) fn is_own_answer(&self) -> bool {
        self.attempt.is_own_answer()
    }

    /// For layers that learn of a server: the attempt succeeded, by what a layer below made.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn is_own_success(&self, verdict: &Verdict) -> bool {
        verdict.failure().is_none() && self.is_own_answer()
    }

    /// For recovery layers: the attempt succeeded, or its response is committed. Updates the
    /// throttle and the state, and leaves no record.
    #[inline]
    pub(crate) fn settle_success(&self, committed: bool) {
        let Some(state) = self.shared() else {
            return;
        };
        if committed {
            if !state.slots.commit(self.key()) {
                // It was read to its end below.
                self.attempt.count_success();
            }
            return state.won(StopReason::Committed);
        }
        let throttle = self.throttle().map(|throttle| &**throttle);
        if state.is_plain() {
            if let Some(throttle) = throttle {
                count_success(throttle, 1, None);
            }
            state.won_plainly(StopReason::Success);
        } else {
            state.succeeded(self.attempt.marks, throttle);
        }
    }

    /// True if a layer below reports the end of the attempt's response, or has done so.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_followed(&self) -> bool {
        self.shared()
            .is_some_and(|state| state.slots.is_followed(self.key()))
    }

    /// For recovery layers: what is called if the response, which is committed, fails later. Only
    /// if a layer below follows it.
    #[cfg(feature = "tokio")]
    #[inline(never)]
    pub(crate) fn watch_response(&self, failed: &ResponseFailed) {
        if let Some(state) = self.shared().filter(|_| self.is_followed()) {
            state.watch_response(Arc::clone(failed));
        }
    }

    /// A response failed after it was committed.
    #[cfg(feature = "tokio")]
    #[cold]
    pub(crate) fn response_failed(&self, stopped: StopReason, failure: Option<&Failure>) {
        if let Some(failed) = self.shared().and_then(CallState::take_watcher) {
            failed(self, stopped, failure);
        }
    }

    /// The same for one of several attempts: unless it is the first, the throttle also receives the
    /// failure for which it last paid.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_recovery(&self, committed: bool) {
        if committed {
            return self.settle_success(true);
        }
        self.attempt.count_success();
        if let Some(state) = self.shared() {
            state.won(StopReason::Success);
        }
    }

    /// The record of this attempt, which succeeded, or whose response is committed.
    pub(crate) fn success_record(&self, committed: bool) -> AttemptRecord {
        let (outcome, stopped) = if committed {
            (AttemptOutcome::Committed, StopReason::Committed)
        } else {
            (AttemptOutcome::Success, StopReason::Success)
        };
        let mut record = AttemptRecord::new(self.attempt(), self.kind(), outcome);
        record.backend = self.backend();
        record.stopped = Some(stopped);
        record
    }

    /// For recovery layers: true if this is a copy of that context, of the same attempt of the same
    /// call.
    #[must_use]
    #[inline]
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        match (&self.attempt.state, &other.attempt.state) {
            (Some(own), Some(of_other)) => {
                Arc::ptr_eq(own, of_other) && self.attempt() == other.attempt()
            }
            _ => false,
        }
    }

    /// For recovery layers: this, a copy of an earlier attempt's context, is now of that attempt.
    pub(crate) fn follow(&mut self, of: &Self) {
        match (&self.attempt.state, &of.attempt.state) {
            (Some(own), Some(other)) if Arc::ptr_eq(own, other) => {
                (self.attempt.marks, self.deadline) = (of.attempt.marks, of.deadline);
            }
            _ => *self = of.clone(),
        }
    }

    /// What the layers below, and the transport, have reported of this attempt so far: for
    /// classifiers, and for layers that decide by it.
    #[must_use]
    pub fn report(&self) -> AttemptReport {
        let state = self.shared();
        state.map_or_else(AttemptReport::default, |state| state.slots.read(self.key()))
    }

    /// For recovery layers: the attempt failed or was dropped, and takes no more reports. Returns
    /// what was reported.
    // Inlined, it adds 28 instructions to each failure.
    #[inline(never)]
    pub(crate) fn end_attempt(&self) -> AttemptReport {
        let state = self.shared();
        state.map_or_else(AttemptReport::default, |state| state.slots.end(self.key()))
    }
}
