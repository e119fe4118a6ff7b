//! What layers note of a call: it is claimed, left to another layer, stopped, copied, or limited.

use super::{ATTEMPT_TIMEOUT, CLAIMED, COPIED, CallState, SENT_MASK, STOPPED, stopped_bits};
use crate::StopReason;
use crate::sync::Ordering;

impl CallState {
    /// A recovery layer acts on the call. Only one claims it: a clone of a context that is not
    /// claimed has a state of its own.
    #[inline]
    pub(crate) fn claim(&self) {
        self.progress.fetch_or(CLAIMED, Ordering::Relaxed);
    }

    /// A recovery layer leaves the call to another one: if none acts, what is sent now is the only
    /// attempt.
    #[cold]
    pub(crate) fn pass_first(&self) {
        if self.progress() & SENT_MASK == 0 {
            self.progress.fetch_or(1, Ordering::Relaxed);
            self.slots.begin(1);
        }
    }

    /// True once an attempt was sent.
    #[cfg(feature = "tokio")]
    pub(crate) fn sent_any(&self) -> bool {
        self.progress() & SENT_MASK > 0
    }

    /// A layer above may call this at any time, so it is one atomic step.
    pub(crate) fn stop(&self, stopped: StopReason) {
        if self.stopped() == Some(stopped) {
            return;
        }
        let _ = self
            .progress
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |progress| {
                Some(progress & !STOPPED | stopped_bits(stopped))
            });
    }

    /// The request is copied after a layer began this call: the copy is a call of its own, of which
    /// that layer sees nothing.
    pub(crate) fn copied(&self) {
        self.flags.fetch_or(COPIED, Ordering::Relaxed);
    }

    /// True once the request was copied after a layer began this call.
    pub(crate) fn is_copied(&self) -> bool {
        self.has(COPIED)
    }

    /// A layer below the recovery layer enforces the policy's attempt timeout.
    pub(crate) fn enforce_attempt_timeout(&self) {
        self.progress.fetch_or(ATTEMPT_TIMEOUT, Ordering::Relaxed);
    }

    /// True once a layer enforces the attempt timeout.
    pub(crate) fn has_attempt_timeout(&self) -> bool {
        self.progress() & ATTEMPT_TIMEOUT != 0
    }
}
