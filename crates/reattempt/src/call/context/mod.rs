//! The context of a call, which a request carries down the stack.

mod caller;
mod handle;
mod info_handle;
mod layers;
mod options;
mod reporter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use crate::call::attempt_bits::{AttemptBits, BEGUN, CALLER, CLAIMED, ENFORCED, POLICY};
use crate::call::attempt_key::AttemptKey;
use crate::call::state::CallState;
use crate::call::states;
use crate::policy::throttle::count_success;
use crate::{
    AttemptKind, AttemptOutcome, AttemptRecord, AttemptReport, CallDeadline, Idempotency,
    StopReason,
};
pub use handle::CallHandle;
pub use info_handle::RetryInfoHandle;
pub(crate) use info_handle::WeakInfoHandle;
pub use reporter::AttemptReporter;

/// The context of a call: its attempt, deadline, idempotency, policy, throttle, and user data.
///
/// What a caller sets is a template. A clone of a context on which no recovery layer acts yet
/// begins a call of its own, so that a request which is cloned above or between the layers never
/// shares a call. It has the deadline, but no layer that enforces it: one around the original need
/// not be around the clone. Below the recovery layer all clones of one attempt's context belong to
/// it.
///
/// The caller's settings override the policy's, and the policy's override the layer's; of two
/// deadlines the earlier applies.
#[derive(Debug, Default)]
pub struct CallContext {
    attempt: Attempt,
    deadline: Option<Instant>,
}

impl Clone for CallContext {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            attempt: if self.is_claimed() || self.attempt.state.is_none() {
                self.attempt.share()
            } else {
                self.attempt.copy()
            },
            deadline: self.deadline,
        }
    }
}

/// One attempt of a call: the call's state, and what belongs to this attempt alone.
#[derive(Debug, Default)]
struct Attempt {
    state: Option<Arc<CallState>>,
    bits: AttemptBits,
}

// The state is dropped by value: without an address taken, a context stays in registers, and the
// drop call is small enough to be inlined wherever a context might be dropped.
impl Drop for Attempt {
    #[inline]
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            states::give_back(state);
        }
    }
}

impl Attempt {
    /// The same attempt of the same call.
    #[inline]
    fn share(&self) -> Self {
        Self {
            state: self.state.clone(),
            bits: self.bits,
        }
    }

    /// The state of the call, if it has one.
    #[inline]
    fn call(&self) -> Option<&CallState> {
        self.state.as_deref().map(CallState::of_call)
    }
}

/// What applies to the call and its attempt.
impl CallContext {
    /// The attempt's number, from 1; 0 above the recovery layers, and without any.
    #[must_use]
    #[inline]
    pub const fn attempt(&self) -> u32 {
        self.attempt.bits.attempt()
    }

    /// Why this attempt is sent.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> AttemptKind {
        self.attempt.bits.kind()
    }

    /// True below the recovery layer that acts on this call.
    #[must_use]
    #[inline]
    pub const fn is_claimed(&self) -> bool {
        self.attempt.bits.has(CLAIMED)
    }

    /// Whether the request may take effect twice.
    #[must_use]
    #[inline]
    pub const fn idempotency(&self) -> Idempotency {
        self.attempt.bits.idempotency()
    }

    /// The deadline that applies here.
    #[must_use]
    #[inline]
    pub const fn deadline(&self) -> Option<CallDeadline> {
        match self.deadline {
            Some(at) => Some(CallDeadline {
                at,
                enforced: self.attempt.bits.has(ENFORCED),
            }),
            None => None,
        }
    }

    /// For layers: sets the deadline that applies from here on, which the layer enforces.
    #[inline]
    pub(crate) const fn enforce_deadline(&mut self, at: Instant) {
        self.deadline = Some(at);
        self.attempt.bits.set(ENFORCED);
    }

    /// False if there is certainly no policy and no strategy other than the layers' own.
    #[must_use]
    #[inline]
    pub const fn has_policy(&self) -> bool {
        self.attempt.bits.has(CALLER | POLICY)
    }

    /// The same attempt of the same call, for a layer that looks at the call's end.
    #[inline]
    pub(crate) fn share(&self) -> Self {
        Self {
            attempt: self.attempt.share(),
            deadline: self.deadline,
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> Option<&CallState> {
        self.attempt.call()
    }

    #[inline]
    pub(crate) const fn key(&self) -> AttemptKey {
        self.attempt.bits.key()
    }
}

/// How a call proceeds: it begins, a recovery layer claims it, attempts are sent, one succeeds.
impl CallContext {
    /// For layers: the call begins, unless it has begun. Returns a handle to it.
    #[inline]
    pub fn begin(&mut self) -> CallHandle {
        self.begun();
        self.attempt.bits.set(BEGUN);
        CallHandle(self.attempt.share())
    }

    #[inline]
    fn state(&mut self) -> &CallState {
        self.attempt.state.get_or_insert_with(states::fresh)
    }

    /// The state of the call, which the caller sees from now on.
    #[inline]
    fn begun(&mut self) -> &CallState {
        self.state();
        if self.attempt.bits.has(CALLER) && !self.attempt.bits.has(BEGUN) {
            self.show_to_caller();
        }
        self.state().of_call()
    }

    /// For recovery layers: claims the call and makes this the context of its first attempt.
    #[inline]
    pub(crate) fn claim_first(&mut self) {
        self.begun().claim_first();
        self.attempt.bits.claim_first();
    }

    /// For recovery layers: makes this the context of an attempt that is about to be sent.
    #[inline]
    pub(crate) fn start_attempt(&mut self, number: u32, kind: AttemptKind) {
        let key = self.begun().sent(number, kind == AttemptKind::Transparent);
        self.attempt.bits.set_attempt(key, kind);
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
            state.succeeded(self.attempt.bits, throttle);
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
                (self.attempt.bits, self.deadline) = (of.attempt.bits, of.deadline);
            }
            _ => *self = of.clone(),
        }
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
