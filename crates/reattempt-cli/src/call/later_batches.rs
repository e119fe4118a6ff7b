//! The later batches of a cursor: each `getMore` is a call of its own, and one answer has them all.

use std::sync::{Mutex, PoisonError};

use reattempt::RetryInfoHandle;

/// Why any later batch was sent again, each reason once, and the last batch.
#[derive(Debug, Default)]
pub(super) struct Later(Mutex<(Vec<&'static str>, Option<RetryInfoHandle>)>);

impl Later {
    pub(super) fn begin(&self, batch: RetryInfoHandle) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::end_last(&mut known);
        known.1 = Some(batch);
    }

    /// True if the last one was sent again.
    fn end_last((reasons, last): &mut (Vec<&'static str>, Option<RetryInfoHandle>)) -> bool {
        let Some(info) = last.take().map(|last| last.info()) else {
            return false;
        };
        for reason in info.reasons() {
            if !reasons.contains(&reason.name()) {
                reasons.push(reason.name());
            }
        }
        info.attempts() > 1
    }

    /// The reasons, and whether the last batch was asked for again.
    pub(super) fn ended(self) -> (Vec<&'static str>, bool) {
        let mut known = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let again = Self::end_last(&mut known);
        (known.0, again)
    }
}
