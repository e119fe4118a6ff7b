//! Waiters for a newer configuration, which attempts left until they are settled.

use super::{CallLog, CallState, LEFT_WAITER, OVER, STOPPED};
use crate::call::attempt_key::{AttemptKey, SLOTS};
use crate::call::state::ConfigWaiter;
use crate::sync::Ordering;

impl CallLog {
    /// Stores the attempt's waiter. Returns the waiter that is not kept: an earlier one of the same
    /// attempt, or one over the limit.
    fn leave_waiter(&mut self, attempt: u32, waiter: ConfigWaiter) -> Option<ConfigWaiter> {
        if let Some((_, other)) = self.waiters.iter_mut().find(|(n, _)| *n == attempt) {
            return Some(std::mem::replace(other, waiter));
        }
        if self.waiters.len() == SLOTS {
            return Some(waiter);
        }
        self.waiters.push((attempt, waiter));
        None
    }
}

impl CallState {
    /// Stores a waiter until its attempt is settled. If the attempt or the call is over, the waiter
    /// is dropped at once: nothing would take it, and a `RetryInfoHandle` may keep the state alive
    /// for a long time.
    pub(crate) fn leave_waiter(&self, key: AttemptKey, waiter: ConfigWaiter) {
        if !self.slots.config_coming(key) {
            return;
        }
        self.flags.fetch_or(LEFT_WAITER, Ordering::Relaxed);
        // Dropping a waiter runs user code, so it happens outside the lock.
        let _unwanted = self.write(|log| log.leave_waiter(key.attempt, waiter));
        // Checked after the waiter was stored: a call that ends meanwhile either finds the waiter
        // or is seen as ended here. A first attempt that succeeds meanwhile takes no lock, and may
        // miss it: then the waiter lives as long as this state.
        if self.progress() & (OVER | STOPPED) != 0 {
            self.drop_waiters();
        }
    }

    /// Called when the call is over.
    #[cold]
    #[inline(never)]
    pub(crate) fn drop_waiters(&self) {
        let take = |log: &mut Option<Box<CallLog>>| {
            let log = log.as_mut()?;
            Some(std::mem::take(&mut log.waiters))
        };
        let _unwanted = self.in_log(take);
    }

    pub(crate) fn take_waiter(&self, attempt: u32) -> Option<ConfigWaiter> {
        self.write(|log| {
            let at = log.waiters.iter().position(|(n, _)| *n == attempt)?;
            Some(log.waiters.swap_remove(at).1)
        })
    }
}
