//! The end of a response that was committed before.

use crate::{AttemptReporter, Verdict};
#[cfg(feature = "tokio")]
use crate::{CallHandle, StopReason};

impl AttemptReporter {
    /// A response that is [followed](Self::follow) ended: well, unless the verdict has a failure.
    /// Counted once: in the health of its backend and by its circuit breaker; in the throttle, the
    /// call's record and by admission only if the recovery layer had left the response open. A good
    /// end before that, while a layer below the recovery layer reads, counts when the response
    /// becomes the call's, unless several layers or steps follow responses of the attempt. A bad
    /// one is for that layer to return. [`Verdict::Retry`] counts as a failure in the throttle,
    /// [`Verdict::Fatal`] is recorded but not counted there.
    pub fn finish(&self, verdict: &Verdict) {
        let was_open = self.conclude(verdict);
        #[cfg(feature = "tokio")]
        if let (true, Some(failure)) = (was_open, verdict.failure()) {
            let context = self.context();
            super::log::stream_failed(&context, failure);
            context.response_failed(StopReason::Committed, Some(failure));
        }
        #[cfg(not(feature = "tokio"))]
        let _ = was_open;
    }
}

#[cfg(feature = "tokio")]
impl CallHandle {
    /// The deadline passed while the response was read: that is why the call ended. The log has it
    /// as a failed call.
    pub fn response_elapsed(&self) {
        self.response_failed(StopReason::Deadline);
    }

    /// The client gave up the response while it was read: this is why the call ended. The log has
    /// it as a failed call.
    pub fn response_failed(&self, stopped: StopReason) {
        self.stop(stopped);
        // A stream that broke was an event of its own.
        if self.has_broken() {
            return;
        }
        super::log::response_failed(self, stopped);
        self.context().response_failed(stopped, None);
    }
}
