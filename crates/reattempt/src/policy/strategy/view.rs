//! What a strategy sees and answers: views also of failures that did not happen, for unit tests.

use std::any::{Any, TypeId};
use std::fmt::{self, Debug};
use std::time::{Duration, Instant};

use super::{CallView, Decision, RetryView};
use crate::attempt::Backend;
use crate::{CallDeadline, Failure, RetryInfo};

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

impl<'a> RetryView<'a> {
    /// What happened in the call before this failure.
    #[must_use]
    pub fn info(&self) -> RetryInfo {
        self.call.info()
    }

    /// Whether the call has made `max` attempts, by which
    /// [`RetryStrategy::max_attempts`](crate::RetryStrategy::max_attempts) ends it:
    /// transparent ones are not counted.
    #[must_use]
    pub const fn has_used_up(&self, max: u32) -> bool {
        self.retries.saturating_add(1) >= max
    }

    /// The user data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&'a T> {
        self.call.data(TypeId::of::<T>())?.downcast_ref()
    }
}

impl Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => f.write_str("Stop"),
            Self::Exhausted => f.write_str("Exhausted"),
            Self::After(delay) => f.debug_tuple("After").field(delay).finish(),
            Self::Defer(_) => f.write_str("Defer"),
        }
    }
}
