//! What is written of a call's attempts after they were recorded, or of those that never were sent.

use super::CallState;
use crate::StopReason;
use crate::attempt::AttemptRecord;
use crate::info::RetryInfo;

impl CallState {
    /// True if the attempt has its record.
    pub(crate) fn has_record(&self, attempt: u32) -> bool {
        let of_attempt = |record: &AttemptRecord| record.number == attempt;
        self.read(|log| log.info.records.iter().rev().any(of_attempt)) == Some(true)
    }

    /// A planned hedge was refused.
    pub(crate) fn refused(&self, stopped: StopReason) {
        self.write(|log| log.info.count_refused(stopped));
    }

    /// Changes the newest record of an attempt after a deferred decision or a late gate.
    pub(crate) fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        self.write(|log| {
            if let Some(record) = log
                .info
                .records
                .iter_mut()
                .rev()
                .find(|r| r.number == attempt)
            {
                change(record);
            }
        });
    }
}

impl RetryInfo {
    pub(crate) fn count_refused(&mut self, stopped: StopReason) {
        match self.refused.iter_mut().find(|(by, _)| *by == stopped) {
            Some(seen) => seen.1 = seen.1.saturating_add(1),
            None => self.refused.push((stopped, 1)),
        }
    }
}
