//! Outcomes that a layer made, and not the server.

use super::{CallState, OWN_ANSWER};
#[cfg(feature = "tokio")]
use super::{SENT_MASK, WON};
use crate::call::attempt_bits::AttemptBits;
use crate::call::attempt_key::AttemptKey;
use crate::call::state::Flag;
use crate::policy::throttle::count_success;
use crate::sync::Ordering;
use crate::{RetryThrottle, StopReason};

impl CallState {
    /// The first attempt of a call that is not plain succeeded: the throttle counts it if the
    /// server answered it. By values: with the address of the context taken, a plain call would
    /// keep it in memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn succeeded(&self, attempt: AttemptBits, throttle: Option<&dyn RetryThrottle>) {
        if let Some(throttle) = throttle.filter(|_| !self.is_own_answer(attempt.key())) {
            count_success(throttle, 1, None);
        }
        self.won(StopReason::Success);
    }

    /// A layer ended this attempt with an error: the reported stage counts.
    pub(crate) fn own_failure(&self, key: AttemptKey) {
        self.slots.set(key, Flag::OWN_ANSWER);
    }

    /// A layer made the response of this attempt, which may be a success.
    pub(crate) fn own_answer(&self, key: AttemptKey) {
        self.own_failure(key);
        self.flags.fetch_or(OWN_ANSWER, Ordering::Relaxed);
    }

    /// The attempt is sent: what a layer made of an earlier step of it is no longer its outcome.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn forget_own_answer(&self, key: AttemptKey) {
        if self.has(OWN_ANSWER) {
            self.slots.put(key, Flag::OWN_ANSWER, false);
        }
    }

    /// True if the outcome of this attempt, which is in flight, is a layer's own.
    #[inline]
    pub(crate) fn is_own_answer(&self, key: AttemptKey) -> bool {
        self.has(OWN_ANSWER) && self.slots.is_own_answer(key)
    }

    /// True if the response of the call is a layer's own.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_answered_by_layer(&self) -> bool {
        let sent = (self.progress() & SENT_MASK) as u32;
        self.has(OWN_ANSWER) && self.slots.any_own_answer(sent)
    }

    /// True once an attempt succeeded by what the server answered, or its response is committed.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_won(&self) -> bool {
        self.progress() & WON != 0 && !self.is_answered_by_layer()
    }
}
