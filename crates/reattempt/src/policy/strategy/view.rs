//! What a strategy sees of a failed attempt and its call.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::info::Backend;
use crate::{CallDeadline, Failure, RetryInfo};

/// The input of a strategy. Strategies are shared by many calls and keep no state of a single call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RetryView<'a> {
    /// Why the attempt failed.
    pub failure: &'a Failure,
    /// When it failed.
    pub now: Instant,
    /// Retries already made; transparent retries are not counted.
    pub retries: u32,
    /// Retries made since the last server pushback (A6: the back-off restarts after one); equal to
    /// `retries` if there was none.
    pub retries_since_pushback: u32,
    /// Consecutive failures with this code (or, without codes, this reason), this one included.
    pub streak: u32,
    /// When the first failure of this streak arrived.
    pub streak_since: Instant,
    /// When the first failure of the call arrived.
    pub failing_since: Instant,
    /// The delay before the failed attempt; `None` before the first retry.
    pub previous_delay: Option<Duration>,
    /// Where the attempt was sent, if the transport reported it.
    pub backend: Option<&'a Backend>,
    /// Whether the request may take effect twice.
    pub idempotent: bool,
    /// The time limit of the call.
    pub limit: Option<CallDeadline>,
    /// The call's history and its user data: see [`info`](Self::info) and [`data`](Self::data).
    pub call: &'a dyn CallView,
}

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
    /// The first failure of a call, at `now`, with no retry made yet, no time limit, and neither
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
            limit: None,
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

    /// Sets the time limit of the call.
    #[must_use]
    pub const fn limit(mut self, limit: CallDeadline) -> Self {
        self.limit = Some(limit);
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

    /// The user data of this type.
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&'a T> {
        self.call.data(TypeId::of::<T>())?.downcast_ref()
    }
}

/// What a strategy may ask about its call. Implemented for [`CallContext`](crate::CallContext), and
/// for `()`, which has no history and no data.
pub trait CallView: Debug {
    /// What happened in the call before the failure.
    fn info(&self) -> RetryInfo;

    /// The user data of the type with this id.
    fn data(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)>;
}

impl CallView for () {
    fn info(&self) -> RetryInfo {
        RetryInfo::default()
    }

    fn data(&self, _: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}
