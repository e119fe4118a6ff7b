//! The read side of a call, which outlives the request.

use super::Attempt;
#[cfg(feature = "tokio")]
use super::CallContext;
use crate::call::attempt_bits::CLAIMED;
#[cfg(feature = "tokio")]
use crate::call::state::AtEnd;
use crate::call::state::CallState;
#[cfg(feature = "tokio")]
use crate::policy::admission::{Admission, was_accepted};
#[cfg(feature = "tokio")]
use crate::{AttemptOutcome, AttemptRecord, Failure, Idempotency};
use crate::{RetryInfo, StopReason};

/// For layers: what became of a call, after its request was passed on.
#[derive(Debug)]
pub struct CallHandle(pub(super) Attempt);

impl Clone for CallHandle {
    fn clone(&self) -> Self {
        Self(self.0.share())
    }
}

impl CallHandle {
    /// What the caller says of the request.
    #[cfg(feature = "tokio")]
    pub(crate) const fn idempotency(&self) -> Idempotency {
        self.0.bits.idempotency()
    }

    /// True once a recovery layer acts on the call.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.0.call().is_some_and(CallState::is_claimed)
    }

    /// True if an attempt is in flight that may have left the client. Assumed to be true if no
    /// recovery layer counts attempts, or if a service above it copied the request.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.is_copied() || self.0.call().is_none_or(CallState::in_flight)
    }

    /// True if an attempt that ended was lost in flight: the server may have carried it out.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_lost(&self) -> bool {
        self.0.call().is_some_and(CallState::has_lost)
    }

    /// True once the server has answered the call with a success: an attempt that worked is neither
    /// in flight nor lost.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_won(&self) -> bool {
        self.0.call().is_some_and(CallState::has_won)
    }

    /// The name of the policy that applied above this handle's layer.
    #[cfg(feature = "tokio")]
    pub(crate) fn route(&self) -> Option<&str> {
        let policy = self.0.policy()?;
        Some(policy.name()).filter(|name| !name.is_empty())
    }

    /// True if the request was copied between this handle's layer and the recovery layer: the copy
    /// is a call of its own, which this handle does not show.
    pub(crate) fn is_copied(&self) -> bool {
        !self.0.bits.has(CLAIMED) && self.0.call().is_some_and(CallState::is_copied)
    }

    /// A layer, and not an answer of the server, ended the current attempt with an error: the
    /// reported stage counts.
    #[cfg(feature = "tokio")]
    pub(crate) fn own_failure(&self) {
        if let Some(state) = self.0.call() {
            state.own_failure(self.0.bits.key());
        }
    }

    /// The response of the current attempt is the layer's own: see
    /// [`AttemptReporter::own_answer`](crate::AttemptReporter::own_answer).
    #[cfg(feature = "tokio")]
    pub(crate) fn own_answer(&self) {
        if let Some(state) = self.0.call() {
            state.own_answer(self.0.bits.key());
        }
    }

    /// The current attempt was not sent, as far as is known: a layer between may have sent it
    /// before, and says so.
    #[cfg(feature = "tokio")]
    pub(crate) fn unsent(&self) {
        if let Some(state) = self.0.call().filter(|_| self.0.bits.has(CLAIMED)) {
            let key = self.0.bits.key();
            if state.slots.read(key).stage.is_none() {
                state.slots.stage(key, crate::Stage::Dispatch);
            }
        }
    }

    /// Stores why the call ended.
    pub fn stop(&self, stopped: StopReason) {
        if let Some(state) = self.0.call() {
            state.stop(stopped);
        }
    }

    /// The call's number in the log.
    #[cfg(feature = "tokio")]
    pub(crate) fn id(&self) -> Option<u64> {
        self.0.call().and_then(CallState::id)
    }

    /// Whether the server accepted the call. `None` while it is in progress, and if no recovery
    /// layer acts on it, another layer answered, or the admission ignores its last failure. If a
    /// layer follows its response and that has not ended, this learns from the end too.
    #[cfg(feature = "tokio")]
    pub(crate) fn was_accepted(
        &self,
        admission: &Admission,
        learns: impl FnOnce() -> AtEnd,
    ) -> Option<bool> {
        // Of a request that was copied the copy may be the call that is sent, or sent again: what
        // became of that is not known here.
        let state = self.0.call()?;
        if self.is_copied() && !state.has_won() {
            return None;
        }
        let counts = |failure: &Failure| !admission.is_ignored(failure);
        match state.stopped()? {
            StopReason::Success | StopReason::Committed if state.is_answered_by_layer() => None,
            StopReason::Committed => Some(state.accepted_at_end(learns())),
            // A layer between was not done with the response.
            StopReason::Deadline if state.has_won() => Some(state.accepted_at_end(learns())),
            StopReason::Deadline => match state.failure_before_deadline() {
                Some(failure) if !counts(&failure) => None,
                failure => was_accepted(StopReason::Deadline, state.sent_any(), || failure),
            },
            stopped => was_accepted(stopped, state.sent_any(), || {
                state.last_failure().filter(counts)
            }),
        }
    }

    /// Whether a response of the call failed after its head.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_broken(&self) -> bool {
        let broke = |record: &AttemptRecord| {
            record.outcome == AttemptOutcome::Committed && record.failure.is_some()
        };
        self.info().records().any(broke)
    }

    /// The call's context, for observers.
    #[cfg(feature = "tokio")]
    pub(crate) fn context(&self) -> CallContext {
        self.0.context()
    }

    /// What happened in the call so far.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.0
            .call()
            .map_or_else(RetryInfo::default, CallState::info)
    }
}
