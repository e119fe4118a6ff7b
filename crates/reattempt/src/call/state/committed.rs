//! How a committed response ended.

use super::CallState;
use crate::call::attempts::AttemptKey;
use crate::info::AttemptRecord;
use crate::{AttemptKind, AttemptOutcome, Failure, StopReason};

impl CallState {
    /// A committed response ended in a failure. The success path left no record of it, unless an
    /// observer wanted one.
    pub(crate) fn concluded(
        &self,
        key: AttemptKey,
        kind: AttemptKind,
        failure: &Failure,
        counts: bool,
    ) {
        self.write(|log| {
            if counts {
                log.info.count_reason(failure.reason);
            }
            let number = key.attempt;
            let mut records = log.info.records.iter_mut().rev();
            if let Some(record) = records.find(|record| record.number == number) {
                record.failure = Some(*failure);
                return;
            }
            let mut record = AttemptRecord::new(number, kind, AttemptOutcome::Committed);
            record.failure = Some(*failure);
            record.stopped = Some(StopReason::Committed);
            let mut backends = log.backends.iter().rev();
            record.backend = backends.find(|(n, _)| *n == number).map(|(_, b)| b.clone());
            log.info.push(record, None);
        });
    }
}
