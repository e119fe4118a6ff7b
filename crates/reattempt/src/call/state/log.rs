//! The log of a call: its records, and what its attempts left.

use std::sync::PoisonError;

#[cfg(feature = "tokio")]
use super::at_end::{AtEnd, EndOf, Step};
#[cfg(feature = "tokio")]
use super::committed::ResponseFailed;
use super::identity::Identity;
use super::{CallState, LEFT_WAITER, LOGGED, SENT_MASK};
use crate::call::attempts::ConfigWaiter;
use crate::info::{AttemptRecord, Backend, MOST_RECORDS, RetryInfo};
use crate::sync::Ordering;
use crate::{Failure, RetryReason, StopReason};

/// The maximum number of distinct reasons counted per call.
const MOST_REASONS: usize = 16;

/// The most entries of each list for which a log's memory is kept.
const FEW: usize = 4;

#[derive(Default)]
pub(super) struct CallLog {
    pub(super) info: RetryInfo,
    /// Only if the log is on.
    pub(super) identity: Option<Box<Identity>>,
    /// The failure for which the throttle last paid for a retry.
    paid: Option<Failure>,
    pub(super) backends: Vec<(u32, Backend)>,
    pub(super) waiters: Vec<(u32, ConfigWaiter)>,
    #[cfg(feature = "tokio")]
    pub(super) at_end: Vec<(EndOf, AtEnd)>,
    #[cfg(feature = "tokio")]
    pub(super) steps: Vec<Step>,
    /// Learns if the committed response fails.
    #[cfg(feature = "tokio")]
    pub(super) watcher: Option<ResponseFailed>,
}

impl CallLog {
    /// Empties it for another call. False if it has grown: then its memory is freed.
    fn clear(&mut self) -> bool {
        let Self {
            info,
            identity,
            paid,
            backends,
            waiters,
            #[cfg(feature = "tokio")]
            at_end,
            #[cfg(feature = "tokio")]
            steps,
            #[cfg(feature = "tokio")]
            watcher,
        } = self;
        (*identity, *paid) = (None, None);
        backends.clear();
        waiters.clear();
        info.clear();
        let info = info.records.capacity().max(info.reasons.capacity());
        let most = info.max(backends.capacity()).max(waiters.capacity());
        #[cfg(feature = "tokio")]
        let most = {
            at_end.clear();
            steps.clear();
            *watcher = None;
            most.max(at_end.capacity()).max(steps.capacity())
        };
        most <= FEW
    }
}

impl RetryInfo {
    fn clear(&mut self) {
        let Self {
            attempts,
            transparent,
            reasons,
            refused,
            records,
            dropped,
            stopped,
        } = self;
        (*attempts, *transparent, *dropped, *stopped) = (0, 0, 0, None);
        reasons.clear();
        refused.clear();
        records.clear();
    }

    pub(crate) fn count_reason(&mut self, reason: RetryReason) {
        if let Some(seen) = self.reasons.iter_mut().find(|(r, _)| *r == reason) {
            seen.1 = seen.1.saturating_add(1);
        } else if self.reasons.len() < MOST_REASONS {
            self.reasons.push((reason, 1));
        }
    }

    pub(crate) fn count_refused(&mut self, stopped: StopReason) {
        match self.refused.iter_mut().find(|(by, _)| *by == stopped) {
            Some(seen) => seen.1 = seen.1.saturating_add(1),
            None => self.refused.push((stopped, 1)),
        }
    }

    pub(crate) fn push(&mut self, record: &AttemptRecord, reason: Option<RetryReason>) {
        if let Some(reason) = reason {
            self.count_reason(reason);
        }
        if self.records.len() == MOST_RECORDS {
            self.records.remove(0);
            self.dropped = self.dropped.saturating_add(1);
        }
        // Cloned in place.
        self.records.extend_from_slice(std::slice::from_ref(record));
    }
}

impl std::fmt::Debug for CallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLog")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl CallState {
    pub(super) fn in_log<T>(&self, act: impl FnOnce(&mut Option<Box<CallLog>>) -> T) -> T {
        act(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The log, which something is written to now.
    pub(super) fn begun<'a>(&self, log: &'a mut Option<Box<CallLog>>) -> &'a mut CallLog {
        if !self.is_logged() {
            self.flags.fetch_or(LOGGED, Ordering::Relaxed);
        }
        log.get_or_insert_default()
    }

    pub(super) fn write<T>(&self, write: impl FnOnce(&mut CallLog) -> T) -> T {
        self.in_log(|log| write(self.begun(log)))
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&CallLog) -> T) -> Option<T> {
        self.in_log(|log| log.as_deref().map(read))
    }

    #[cfg(test)]
    pub(crate) fn log_address(&self) -> Option<usize> {
        self.read(|log| std::ptr::from_ref(log).addr())
    }

    /// Empties the log for another call, and keeps its memory, unless it has grown.
    pub(crate) fn clear_log(&mut self) {
        let log = self.log.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !log.as_mut().is_some_and(|log| log.clear()) {
            *log = None;
        }
        self.flags.store(0, Ordering::Relaxed);
    }

    pub(crate) fn record(&self, record: &AttemptRecord, reason: Option<RetryReason>) {
        self.remember_lost(record);
        let _unwanted = self.write(|log| {
            if record.paid {
                log.paid = record.failure;
            }
            log.info.push(record, reason);
            // The lock orders this before or after a waiter that is stored at the same time.
            let unwanted = self.has(LEFT_WAITER) && self.is_over();
            unwanted.then(|| std::mem::take(&mut log.waiters))
        });
    }

    /// True if the attempt has its record.
    pub(crate) fn has_record(&self, attempt: u32) -> bool {
        let of_attempt = |record: &AttemptRecord| record.number == attempt;
        self.read(|log| log.info.records.iter().rev().any(of_attempt)) == Some(true)
    }

    /// The failure for which the throttle last paid for a retry. A call that succeeds at once has
    /// no log to read.
    pub(crate) fn last_paid(&self) -> Option<Failure> {
        if !self.is_logged() {
            return None;
        }
        self.read(|log| log.paid)?
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

    /// What the last attempt that no circuit breaker refused failed with; the refusal, if all were
    /// refused.
    #[cfg(feature = "tokio")]
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        self.read(|log| {
            let failures = || log.info.records.iter().rev().filter_map(|r| r.failure);
            failures()
                .find(|failure| !failure.was_refused())
                .or_else(|| failures().next())
        })?
    }

    /// The same of a call that ended at its deadline: only if it returned this failure, or waited
    /// for a circuit to close.
    #[cfg(feature = "tokio")]
    pub(crate) fn failure_at_deadline(&self) -> Option<Failure> {
        let is_known = self.read(|log| {
            let last = log.info.records.last()?;
            // An attempt that the deadline cut off has none.
            let failure = last.failure?;
            let returned = last.stopped == Some(StopReason::Deadline) && last.delay.is_none();
            Some(returned || failure.was_refused())
        });
        is_known.flatten().filter(|known| *known)?;
        self.last_failure()
    }

    pub(crate) fn info(&self) -> RetryInfo {
        let kept = self.is_logged().then(|| self.read(|log| log.info.clone()));
        let mut info = kept.flatten().unwrap_or_default();
        info.attempts = (self.progress() & SENT_MASK) as u32;
        info.stopped = self.stopped();
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::reason::KV_LOCKED;
    use crate::{AttemptKind, AttemptOutcome, Stage};

    #[test]
    fn of_many_records_the_last_are_kept_and_the_others_counted() {
        let mut info = RetryInfo::default();
        let most = u32::try_from(MOST_RECORDS).unwrap();
        for number in 1..=most + 5 {
            let outcome = AttemptOutcome::Retry;
            let mut record = AttemptRecord::new(number, AttemptKind::Retry, outcome);
            record.failure = Some(Failure::new(KV_LOCKED, Stage::Response));
            info.push(&record, Some(KV_LOCKED));
            assert_eq!(info.dropped_records(), number.saturating_sub(most));
        }
        assert!(info.records().map(|record| record.number).eq(6..=most + 5));
        assert_eq!(info.count(KV_LOCKED), most + 5, "dropped records count");
    }
}
