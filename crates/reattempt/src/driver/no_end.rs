//! An attempt ended in another way than the response that had begun.

use super::Effects;
use crate::{AttemptOutcome, AttemptRecord, Failure, Stage, Verdict};

impl Effects<'_> {
    /// The response of an attempt may have begun all the same, below a layer that waits for its
    /// body: what waits for its end learns the failure instead.
    #[cold]
    pub(super) fn no_end_of(&self, record: &AttemptRecord) {
        // What a layer in between made of it says nothing of the server, nor does a failure that
        // may be of a later step, or is: the server's response came after dispatch.
        let report = self.context.report();
        let of_server = |failure: &Failure| {
            !report.own_answer && !report.in_doubt && failure.stage != Stage::Dispatch
        };
        let failure = record.failure.filter(of_server);
        let verdict = match record.outcome {
            AttemptOutcome::Success | AttemptOutcome::Committed => return,
            AttemptOutcome::Retry => failure.map(Verdict::Retry),
            AttemptOutcome::Fatal => failure.map(Verdict::Fatal),
            AttemptOutcome::Cancelled => None,
        };
        if let Some(state) = self.context.shared() {
            state.ends(record.number, verdict.as_ref());
        }
    }
}
