//! How a response ended that was followed.

#[cfg(feature = "tokio")]
use std::sync::Arc;

use super::{CallLog, CallState};
#[cfg(feature = "tokio")]
use crate::CallContext;
use crate::attempt::AttemptRecord;
use crate::call::attempt_bits::AttemptBits;
use crate::{AttemptOutcome, Failure, StopReason, Verdict};

/// Called if a response fails after it was committed.
#[cfg(feature = "tokio")]
pub(crate) type ResponseFailed =
    Arc<dyn Fn(&CallContext, StopReason, Option<&Failure>) + Send + Sync>;

impl CallState {
    /// This is called if the committed response fails.
    #[cfg(feature = "tokio")]
    pub(crate) fn watch_response(&self, failed: ResponseFailed) {
        self.write(|log| log.watcher = Some(failed));
    }

    /// What is to be called, once.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_watcher(&self) -> Option<ResponseFailed> {
        self.in_log(|log| log.as_deref_mut()?.watcher.take())
    }

    /// A response that was followed ended. True if it was committed and open until now. In the
    /// log's lock, so that no layer sees a response that is over without the record of its failure.
    pub(super) fn conclude(
        &self,
        log: &mut Option<Box<CallLog>>,
        attempt: AttemptBits,
        verdict: &Verdict,
    ) -> bool {
        let failure = verdict.failure();
        let was_open = self.slots.conclude(attempt.key(), failure.is_none());
        if let (true, Some(failure)) = (was_open, failure) {
            let counts = matches!(verdict, Verdict::Retry(_));
            self.begun(log).concluded(attempt, failure, counts);
        }
        was_open
    }

    /// As with the feature `tokio`, without layers that learn from it.
    #[cfg(not(feature = "tokio"))]
    pub(crate) fn ended(&self, attempt: AttemptBits, verdict: &Verdict) -> bool {
        self.in_log(|log| self.conclude(log, attempt, verdict))
    }
}

impl CallLog {
    /// A committed response ended in a failure. The success path left no record of it, unless an
    /// observer wanted one.
    fn concluded(&mut self, attempt: AttemptBits, failure: &Failure, counts: bool) {
        if counts {
            self.info.count_reason(failure.reason);
        }
        let number = attempt.attempt();
        let mut records = self.info.records.iter_mut().rev();
        if let Some(record) = records.find(|record| record.number == number) {
            record.failure = Some(*failure);
            return;
        }
        let mut record = AttemptRecord::new(number, attempt.kind(), AttemptOutcome::Committed);
        record.failure = Some(*failure);
        record.stopped = Some(StopReason::Committed);
        let mut backends = self.backends.iter().rev();
        record.backend = backends.find(|(n, _)| *n == number).map(|(_, b)| b.clone());
        self.info.push(&record);
    }
}
