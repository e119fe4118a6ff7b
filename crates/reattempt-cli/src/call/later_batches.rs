//! The later batches of a cursor: each `getMore` is a call of its own, and one answer has them all.

use std::sync::{Mutex, PoisonError};

use reattempt::{RetryInfo, RetryInfoHandle};

/// Why any later batch was sent again, each reason once, and the last batch.
#[derive(Debug, Default)]
pub(super) struct Later(Mutex<(Vec<&'static str>, Option<RetryInfoHandle>)>);

impl Later {
    pub(super) fn begin(&self, batch: RetryInfoHandle) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::end_last(&mut known);
        known.1 = Some(batch);
    }

    /// What happened in the last one, if there was any.
    fn end_last((reasons, last): &mut (Vec<&'static str>, Option<RetryInfoHandle>)) -> RetryInfo {
        let info = last
            .take()
            .map_or_else(RetryInfo::default, |last| last.info());
        for reason in info.reasons() {
            if !reasons.contains(&reason.name()) {
                reasons.push(reason.name());
            }
        }
        info
    }

    /// The reasons, and what happened in the last batch.
    pub(super) fn ended(self) -> (Vec<&'static str>, RetryInfo) {
        let mut known = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let last = Self::end_last(&mut known);
        (known.0, last)
    }
}
