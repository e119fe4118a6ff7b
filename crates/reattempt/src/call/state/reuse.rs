//! A state whose call is over is used again by a later call.

use std::sync::PoisonError;

use super::{CallLog, CallState, SEEN_BACKENDS};
use crate::RetryInfo;
use crate::sync::Ordering;

/// The most entries of each list for which a log's memory is kept.
const FEW: usize = 4;

impl CallState {
    /// True if a later call may use this state: it holds nothing but a policy and a throttle, which
    /// that call replaces or attaches again, and perhaps an empty log.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
            && self.options.caller.is_none()
            && self.of.is_none()
    }

    /// Resets what another call left. Each attempt writes its slot before it is read. Only attempt
    /// 0, which no recovery layer sends, uses its slot without writing it first.
    #[inline]
    pub(crate) fn reset(&self) {
        self.progress.store(0, Ordering::Relaxed);
        self.slots.begin(0);
    }

    #[cfg(test)]
    pub(crate) fn log_address(&self) -> Option<usize> {
        self.read(|log| std::ptr::from_ref(log).addr())
    }

    /// Empties the log for another call, and keeps its memory, unless it has grown.
    pub(crate) fn clear_log(&mut self) {
        // A transport that names its backend logs nothing else of a call that works.
        let is_named = self.flags.load(Ordering::Relaxed) == SEEN_BACKENDS;
        let log = self.log.get_mut().unwrap_or_else(PoisonError::into_inner);
        let clear = |log: &mut Box<CallLog>| {
            if is_named {
                log.clear_backends()
            } else {
                log.clear()
            }
        };
        if !log.as_mut().is_some_and(clear) {
            *log = None;
        }
        self.flags.store(0, Ordering::Relaxed);
    }
}

impl CallLog {
    /// Empties a log with nothing but backends, as [`clear`](Self::clear) does.
    fn clear_backends(&mut self) -> bool {
        debug_assert!(self.info == RetryInfo::default() && self.waiters.is_empty());
        #[cfg(feature = "tokio")]
        debug_assert!(self.at_end.is_empty() && self.steps.is_empty() && self.watcher.is_none());
        self.backends.clear();
        self.backends.capacity() <= FEW
    }

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
}

impl std::fmt::Debug for CallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLog")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
