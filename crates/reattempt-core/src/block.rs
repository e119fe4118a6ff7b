//! The block that all attempts and layers of one call share.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::RetryReason;
use crate::findings::{Backend, ConfigWaiter, SLOTS, Slots};
use crate::info::{AttemptRecord, MOST_RECORDS, RetryInfo, Stopped};

/// The most different reasons counted of one call.
const MOST_REASONS: usize = 16;

/// One allocation a call. Atomics for what every attempt writes; the rest behind a lock that a
/// call which works at once never takes.
#[derive(Debug, Default)]
pub(crate) struct CallBlock {
    pub(crate) slots: Slots,
    /// Written by the recovery layer only.
    sent: AtomicU32,
    stopped: AtomicU8,
    claimed: AtomicBool,
    log: Mutex<CallLog>,
}

#[derive(Default)]
struct CallLog {
    info: RetryInfo,
    backends: Vec<(u32, Backend)>,
    waiters: Vec<(u32, ConfigWaiter)>,
}

impl std::fmt::Debug for CallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLog")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl CallBlock {
    fn log(&self) -> MutexGuard<'_, CallLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn claim(&self) {
        self.claimed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self, attempt: u32, transparent: bool) {
        self.slots.begin(attempt);
        // Only the recovery layer's future writes it, so a plain store will do.
        self.sent.store(attempt, Ordering::Relaxed);
        if transparent {
            self.log().info.transparent += 1;
        }
    }

    pub(crate) fn settled(&self, attempt: u32) {
        self.slots.over(attempt);
    }

    pub(crate) fn stop(&self, stopped: Stopped) {
        self.stopped.store(stopped.to_byte(), Ordering::Relaxed);
    }

    /// True if some attempt is out that may have left the client.
    pub(crate) fn in_flight(&self) -> bool {
        let sent = self.sent.load(Ordering::Relaxed);
        if !self.is_claimed() {
            return true;
        }
        let first = sent.saturating_sub(SLOTS as u32 - 1).max(1);
        (first..=sent).any(|n| self.slots.may_have_left(n))
    }

    pub(crate) fn record(&self, record: AttemptRecord, reason: Option<RetryReason>) {
        let mut log = self.log();
        let info = &mut log.info;
        if let Some(reason) = reason {
            if let Some(seen) = info.reasons.iter_mut().find(|(r, _)| *r == reason) {
                seen.1 = seen.1.saturating_add(1);
            } else if info.reasons.len() < MOST_REASONS {
                info.reasons.push((reason, 1));
            }
        }
        if info.records.len() == MOST_RECORDS {
            info.records.pop_front();
            info.dropped = info.dropped.saturating_add(1);
        }
        info.records.push_back(record);
    }

    /// Changes the newest record of an attempt, once a deferred decision or a late gate is known.
    pub(crate) fn amend(&self, attempt: u32, change: impl FnOnce(&mut AttemptRecord)) {
        let mut log = self.log();
        if let Some(record) = log
            .info
            .records
            .iter_mut()
            .rev()
            .find(|r| r.number == attempt)
        {
            change(record);
        }
    }

    pub(crate) fn backend(&self, attempt: u32, backend: Backend) {
        let mut log = self.log();
        if log.backends.len() == MOST_RECORDS {
            log.backends.remove(0);
        }
        log.backends.push((attempt, backend));
    }

    pub(crate) fn backend_of(&self, attempt: u32) -> Option<Backend> {
        self.log()
            .backends
            .iter()
            .rev()
            .find(|(n, _)| *n == attempt)
            .map(|(_, b)| b.clone())
    }

    pub(crate) fn backends(&self) -> Vec<Backend> {
        let mut seen: Vec<Backend> = Vec::new();
        for (_, backend) in &self.log().backends {
            if !seen.contains(backend) {
                seen.push(backend.clone());
            }
        }
        seen
    }

    pub(crate) fn leave_waiter(&self, attempt: u32, waiter: ConfigWaiter) {
        if self.slots.config_coming(attempt) {
            let mut log = self.log();
            log.waiters.retain(|(n, _)| *n != attempt);
            if log.waiters.len() < SLOTS {
                log.waiters.push((attempt, waiter));
            }
        }
    }

    pub(crate) fn take_waiter(&self, attempt: u32) -> Option<ConfigWaiter> {
        let mut log = self.log();
        let at = log.waiters.iter().position(|(n, _)| *n == attempt)?;
        Some(log.waiters.swap_remove(at).1)
    }

    pub(crate) fn info(&self) -> RetryInfo {
        let mut info = self.log().info.clone();
        info.attempts = self.sent.load(Ordering::Relaxed);
        info.stopped = Stopped::from_byte(self.stopped.load(Ordering::Relaxed));
        info
    }
}
