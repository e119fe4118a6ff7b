//! An attempt ended in another way than the response that had begun.

use super::Effects;
use crate::{AttemptOutcome, AttemptRecord};

impl Effects<'_> {
    /// The response of an attempt may have begun all the same, below a layer that waits for its
    /// body: what waits for its end learns the failure instead.
    #[cold]
    pub(super) fn no_end_of(&self, record: &AttemptRecord) {
        let counts = match record.outcome {
            AttemptOutcome::Success | AttemptOutcome::Committed => return,
            AttemptOutcome::Retry => Some(true),
            AttemptOutcome::Fatal => Some(false),
            AttemptOutcome::Cancelled => None,
        };
        // What a layer in between made of it says nothing of the server, nor does a failure that
        // may be of a later step.
        let report = self.context.report();
        let counts = counts.filter(|_| !report.own_answer && !report.in_doubt);
        if let Some(state) = self.context.shared() {
            state.no_end_of(record.number, record.failure.as_ref().zip(counts));
        }
    }
}
