//! The end of a response that was committed before.

use crate::{AttemptReporter, Failure};

impl AttemptReporter {
    /// A committed response ended: with `Err` if it failed. Counted once, and only if the recovery
    /// layer had left the response open: in the throttle, in the health of its backend, by its
    /// circuit breaker and by admission. `Err` with `counts` false is recorded but not counted in
    /// the throttle (a fatal status).
    pub fn finish(&self, end: Result<(), (&Failure, bool)>) {
        let was_open = self.conclude(end);
        #[cfg(feature = "tokio")]
        if let (true, Err((failure, _))) = (was_open, end) {
            super::log::stream_failed(&self.context(), failure);
        }
        #[cfg(not(feature = "tokio"))]
        let _ = was_open;
    }
}
