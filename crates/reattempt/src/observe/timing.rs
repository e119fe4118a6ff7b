//! How long a call takes, and what it is about: for its log, and for hedge delays that learn.

use std::time::{Duration, Instant};

use super::log::is_on;
use crate::{CallContext, CallSubject, clock};

impl CallContext {
    /// For recovery layers: an attempt is pending. If the log is on, the call began now at the
    /// latest.
    #[inline]
    pub(crate) fn waits(&self) {
        if is_on() {
            self.waits_at(clock::now);
        }
    }

    /// The same where the clock was read already.
    #[cold]
    #[inline(never)]
    pub(crate) fn waits_at(&self, now: impl FnOnce() -> Instant) {
        if let Some(state) = self.shared() {
            state.waits(now);
        }
    }

    /// For recovery layers: keeps what the call is about, if the log is on.
    pub(crate) fn describe(&self, subject: impl FnOnce() -> CallSubject) {
        if let Some(state) = self.shared().filter(|_| is_on()) {
            // A call whose first attempt failed at once has not waited so far.
            state.waits(clock::now);
            state.describe(|| {
                let method = || Some(self.method()?.name().into());
                let mut subject = subject();
                subject.method = subject.method.or_else(method);
                subject
            });
        }
    }

    /// How long the call took up to `now`.
    pub(crate) fn took(&self, now: Instant) -> Duration {
        self.shared()
            .map_or(Duration::ZERO, |state| state.took(now))
    }
}
