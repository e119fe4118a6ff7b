//! Views of failures that did not happen, for unit tests of strategies.

use std::time::{Duration, Instant};

use super::{CallView, RetryView};
use crate::info::Backend;
use crate::{CallDeadline, Failure};

/// Builders for unit tests of a strategy.
///
/// ```
/// use std::time::Instant;
/// use reattempt::strategy::BestEffort;
/// use reattempt::{Decision, Failure, RetryStrategy, RetryView, Stage, reason};
///
/// let failure = Failure::new(reason::KV_LOCKED, Stage::Response);
/// # #[allow(clippy::disallowed_methods)]
/// let view = RetryView::new(&failure, Instant::now()).retries(3);
/// assert!(matches!(BestEffort::new().decide(&view), Decision::After(d) if d.as_millis() == 8));
/// ```
impl<'a> RetryView<'a> {
    /// The first failure of a call, at `now`, with no retry made yet, no deadline, and neither
    /// history nor user data.
    #[must_use]
    pub const fn new(failure: &'a Failure, now: Instant) -> Self {
        Self {
            failure,
            now,
            retries: 0,
            retries_since_pushback: 0,
            streak: 1,
            streak_since: now,
            failing_since: now,
            previous_delay: None,
            backend: None,
            idempotent: false,
            deadline: None,
            call: &(),
        }
    }

    /// Sets the number of retries made, none of them after a server pushback.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self.retries_since_pushback = retries;
        self
    }

    /// Sets how many of the retries were made since the last server pushback.
    #[must_use]
    pub const fn retries_since_pushback(mut self, retries: u32) -> Self {
        self.retries_since_pushback = retries;
        self
    }

    /// Sets how often the same failure occurred in a row, this one included; the first was at
    /// `since`.
    #[must_use]
    pub const fn streak(mut self, streak: u32, since: Instant) -> Self {
        self.streak = streak;
        self.streak_since = since;
        self
    }

    /// Sets when the call's first failure arrived.
    #[must_use]
    pub const fn failing_since(mut self, since: Instant) -> Self {
        self.failing_since = since;
        self
    }

    /// Sets the delay before the failed attempt.
    #[must_use]
    pub const fn previous_delay(mut self, delay: Duration) -> Self {
        self.previous_delay = Some(delay);
        self
    }

    /// Sets where the attempt was sent.
    #[must_use]
    pub const fn backend(mut self, backend: &'a Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Sets whether the request may take effect twice.
    #[must_use]
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = idempotent;
        self
    }

    /// Sets the deadline of the call.
    #[must_use]
    pub const fn deadline(mut self, deadline: CallDeadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets what has the call's history and its user data, such as a
    /// [`CallContext`](crate::CallContext).
    #[must_use]
    pub const fn call(mut self, call: &'a dyn CallView) -> Self {
        self.call = call;
        self
    }
}
