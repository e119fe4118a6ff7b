//! The block that all attempts and layers of one call share.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::findings::{Backend, ConfigWaiter, SLOTS, Slots};
use crate::info::{AttemptRecord, MOST_RECORDS, RetryInfo, Stopped};
use crate::{RetryReason, RetryThrottle, RoutePolicy};

/// One allocation a call. Atomics for what every attempt writes; the rest behind a lock that a
/// call which works at once never takes.
#[derive(Debug, Default)]
pub(crate) struct CallBlock {
    pub(crate) slots: Slots,
    /// Written by the recovery layer only.
    sent: AtomicU32,
    stopped: AtomicU8,
    claimed: AtomicBool,
    /// Stamped by layers, the outermost first.
    pub(crate) policy: OnceLock<Arc<RoutePolicy>>,
    pub(crate) throttle: OnceLock<Arc<dyn RetryThrottle>>,
    /// Boxed with its first entry, so that a call which works at once neither makes nor drops one.
    log: Mutex<Option<Box<CallLog>>>,
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
    fn write<T>(&self, write: impl FnOnce(&mut CallLog) -> T) -> T {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        write(log.get_or_insert_default())
    }

    fn read<T>(&self, read: impl FnOnce(&CallLog) -> T) -> Option<T> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.as_deref().map(read)
    }

    /// False if a recovery layer acts on the call already.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        if self.is_claimed() {
            return false;
        }
        self.claimed.store(true, Ordering::Relaxed);
        true
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self, attempt: u32, transparent: bool) {
        self.slots.begin(attempt);
        // Only the recovery layer's future writes it, so a plain store will do.
        self.sent.store(attempt, Ordering::Relaxed);
        if transparent {
            self.write(|log| log.info.transparent = log.info.transparent.saturating_add(1));
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
        self.write(|log| log.info.push(record, reason));
    }

    /// Changes the newest record of an attempt, once a deferred decision or a late gate is known.
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

    pub(crate) fn backend(&self, attempt: u32, backend: Backend) {
        self.write(|log| {
            if log.backends.len() == MOST_RECORDS {
                log.backends.remove(0);
            }
            log.backends.push((attempt, backend));
        });
    }

    pub(crate) fn backend_of(&self, attempt: u32) -> Option<Backend> {
        self.read(|log| {
            log.backends
                .iter()
                .rev()
                .find(|(n, _)| *n == attempt)
                .map(|(_, b)| b.clone())
        })?
    }

    pub(crate) fn backends(&self) -> Vec<Backend> {
        let seen = self.read(|log| {
            let mut seen: Vec<Backend> = Vec::new();
            for (_, backend) in &log.backends {
                if !seen.contains(backend) {
                    seen.push(backend.clone());
                }
            }
            seen
        });
        seen.unwrap_or_default()
    }

    pub(crate) fn leave_waiter(&self, attempt: u32, waiter: ConfigWaiter) {
        if self.slots.config_coming(attempt) {
            self.write(|log| {
                log.waiters.retain(|(n, _)| *n != attempt);
                if log.waiters.len() < SLOTS {
                    log.waiters.push((attempt, waiter));
                }
            });
        }
    }

    pub(crate) fn take_waiter(&self, attempt: u32) -> Option<ConfigWaiter> {
        self.write(|log| {
            let at = log.waiters.iter().position(|(n, _)| *n == attempt)?;
            Some(log.waiters.swap_remove(at).1)
        })
    }

    pub(crate) fn info(&self) -> RetryInfo {
        let mut info = self.read(|log| log.info.clone()).unwrap_or_default();
        info.attempts = self.sent.load(Ordering::Relaxed);
        info.stopped = Stopped::from_byte(self.stopped.load(Ordering::Relaxed));
        info
    }
}
