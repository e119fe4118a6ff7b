//! A strategy with overrides for single reasons (RFC 0049, Fail Fast: "extend the BestEffort retry
//! strategy and only override the specific situations").

use std::sync::Arc;
use std::time::Duration;

use super::{Decision, NeverRetry, RetryStrategy, RetryView, Surface};
use crate::{Failure, OnDeadline, RetryReason};

/// Extends a strategy for single reasons: each of these has its own strategy, and the extended
/// strategy decides all others.
///
/// ```
/// use std::time::Duration;
/// use reattempt::backoff::Backoff;
/// use reattempt::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE, QUERY_INDEX_NOT_FOUND};
/// use reattempt::strategy::{MaxAttempts, BestEffort, Extended};
/// # use reattempt::{CallContext, Decision, Failure, RetryStrategy, RetryView, Stage};
///
/// let strategy = Extended::new(BestEffort::new())
///     .never(QUERY_INDEX_NOT_FOUND)
///     .by(KV_LOCKED, MaxAttempts::new(3, Backoff::constant(Duration::from_millis(20))));
/// # let context = CallContext::default();
/// # #[allow(clippy::disallowed_methods)]
/// # let decide = |reason, retries| {
/// #     let failure = Failure::new(reason, Stage::Response);
/// #     let now = std::time::Instant::now();
/// #     strategy.decide(&RetryView::new(&failure, now).retries(retries))
/// # };
/// # assert!(matches!(decide(QUERY_INDEX_NOT_FOUND, 0), Decision::Exhausted));
/// # assert!(matches!(decide(KV_LOCKED, 1), Decision::After(delay) if delay.as_millis() == 20));
/// # assert!(matches!(decide(KV_LOCKED, 2), Decision::Exhausted));
/// # let doubled = decide(KV_TEMPORARY_FAILURE, 2);
/// # assert!(matches!(doubled, Decision::After(delay) if delay.as_millis() == 4));
/// ```
///
/// Each strategy sees the whole call: three attempts are three attempts for any reason, and a call
/// that has used up the maximum of its last failure's strategy ends by
/// [`StopReason::Attempts`](crate::StopReason::Attempts).
/// [`OnDeadline`] and the choice of the returned failure are those of the extended strategy. A
/// pushback starts no back-off again if one of the strategies has no maximum.
/// Always-retry reasons bypass all of them. To decide by anything but the reason (application data,
/// the node), implement [`RetryStrategy`] around another strategy.
#[derive(Clone, Debug)]
pub struct Extended<S> {
    extended: S,
    own: Vec<(RetryReason, Arc<dyn RetryStrategy>)>,
}

impl<S: RetryStrategy> Extended<S> {
    /// Extends this strategy.
    #[must_use]
    pub const fn new(extended: S) -> Self {
        Self {
            extended,
            own: Vec::new(),
        }
    }

    /// Failures with this reason are decided by that strategy. For one reason the last call
    /// applies.
    #[must_use]
    pub fn by(mut self, reason: RetryReason, strategy: impl RetryStrategy + 'static) -> Self {
        self.own.retain(|(own, _)| *own != reason);
        self.own.push((reason, Arc::new(strategy)));
        self
    }

    /// Failures with this reason are not retried.
    #[must_use]
    pub fn never(self, reason: RetryReason) -> Self {
        self.by(reason, NeverRetry)
    }

    fn of(&self, reason: RetryReason) -> &dyn RetryStrategy {
        let own = self.own.iter().find(|(own, _)| *own == reason);
        own.map_or(&self.extended, |(_, strategy)| &**strategy)
    }
}

impl<S: RetryStrategy> RetryStrategy for Extended<S> {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let strategy = self.of(view.failure.reason);
        match strategy.max_attempts() {
            Some(max) if view.has_used_up(max) => Decision::Exhausted,
            _ => strategy.decide(view),
        }
    }

    /// The largest maximum of all of them.
    fn max_attempts(&self) -> Option<u32> {
        let own = self.own.iter().map(|(_, strategy)| strategy.max_attempts());
        own.fold(self.extended.max_attempts(), |most, own| {
            Some(most?.max(own?))
        })
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.extended.on_deadline()
    }

    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        self.of(failure.reason).delay_asked(failure, asked, own)
    }

    fn holds(&self) -> bool {
        self.extended.holds()
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        self.extended.surface(held, new)
    }
}
