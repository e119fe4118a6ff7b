//! A call that ends without a success, and a delay that does not run to its end.

use std::time::Instant;

use super::{Effects, RetryDriver};
use crate::StopReason;
use crate::attempt::AttemptRecord;

impl Effects<'_> {
    pub(super) fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        if let Some(state) = self.context.shared() {
            state.amend(attempt, change);
        }
    }

    /// The delay after this attempt ended early: its record gets the time that was really waited.
    pub(crate) fn waited_until(&self, now: Instant) {
        self.amend(self.context.attempt(), |record| {
            if let (Some(_), Some(ended)) = (record.delay, record.ended) {
                record.delay = Some(now.saturating_duration_since(ended));
            }
        });
    }

    /// A late gate: the attempt that was waited for is not sent, and the call ends.
    pub(crate) fn unsent(&self, driver: &mut RetryDriver, stopped: StopReason) {
        driver.unsent(self.throttle());
        self.amend(self.context.attempt(), |record| {
            record.stopped = Some(stopped);
        });
        self.ended(stopped);
    }

    /// The call ended for this reason.
    pub(crate) fn ended(&self, stopped: StopReason) {
        let Some(state) = self.context.shared() else {
            return;
        };
        if !state.end(stopped) {
            return;
        }
        // The log's lock orders this before or after a waiter that is stored at the same time.
        state.drop_waiters();
        self.observe_end(state, stopped);
    }
}
