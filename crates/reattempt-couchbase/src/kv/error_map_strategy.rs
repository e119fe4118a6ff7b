//! An optional strategy that uses the server's own retry specifications.

use std::sync::Arc;
use std::time::Duration;

use reattempt::reason::KV_ERROR_MAP_RETRY_INDICATED;
use reattempt::strategy::BestEffort;
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Surface};

use super::{ErrorMaps, RetrySpec};

/// Between two retries of a call.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// The longest delay of a call without a deadline. A longer one means stop, as of pushback.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Retries statuses that only the error map defines, by the map's retry specification (RFC 0013,
/// Retry Intervals).
///
/// An explicit choice: RFC 0049 forbids the use of these values with any other strategy. The
/// specification is looked up by the failure's status in the [`ErrorMaps`] of the attempt's node.
/// Failures without one are handled by another strategy, `BestEffort` unless
/// [`ErrorMapStrategy::otherwise`] sets one.
///
/// The retries of one status are counted while it is the only failure; any other failure in
/// between, also one without a status, such as a lost connection, restarts the count and the time
/// of `max-duration`. If a retry would be sent later than `max-duration` after the first failure
/// of such a series, the failure is returned at once. So a call whose failures alternate is not
/// bounded by any `max-duration`, only by its deadline.
///
/// A failure whose delay is longer than a day is returned at once, too, if the call has no
/// deadline. Between two retries there is at least one millisecond.
#[derive(Clone, Debug)]
pub struct ErrorMapStrategy {
    maps: ErrorMaps,
    otherwise: Arc<dyn RetryStrategy>,
}

impl ErrorMapStrategy {
    /// Uses the specifications of these maps.
    #[must_use]
    pub fn new(maps: ErrorMaps) -> Self {
        Self {
            maps,
            otherwise: Arc::new(BestEffort::new()),
        }
    }

    /// The strategy for failures without a retry specification. Its maximum of attempts ends a call
    /// with such a failure only; all attempts of the call count.
    #[must_use]
    pub fn otherwise(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.otherwise = Arc::new(strategy);
        self
    }

    /// Only a status that the classifier took from a map is retried by a map; known statuses have
    /// the client's own rules.
    fn spec(&self, view: &RetryView<'_>) -> Option<RetrySpec> {
        if view.failure.reason != KV_ERROR_MAP_RETRY_INDICATED {
            return None;
        }
        let status = u16::try_from(view.failure.code?).ok()?;
        let map = self.maps.of(view.backend)?;
        map.get(status)?.retry_spec().copied()
    }
}

impl RetryStrategy for ErrorMapStrategy {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if let Some(spec) = self.spec(view) {
            // The streak counts failures, including this one, so one less is the number of retries
            // for this status.
            let retries = view.streak.saturating_sub(1);
            let mut delay = spec.delay(retries);
            if view.retries > 0 {
                // An interval of zero would retry at the speed of the network; so would two
                // statuses in turn, each of which is retried at once.
                delay = delay.max(LEAST_INTERVAL);
            }
            if delay > LONGEST_DELAY && view.deadline.is_none() {
                return Decision::Stop;
            }
            let elapsed = view.now.saturating_duration_since(view.streak_since);
            return match spec.max_duration() {
                Some(max) if elapsed.saturating_add(delay) > max => Decision::Stop,
                _ => Decision::After(delay),
            };
        }
        match self.otherwise.max_attempts() {
            Some(max) if view.has_used_up(max) => Decision::Exhausted,
            _ => self.otherwise.decide(view),
        }
    }

    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        let asked = self.otherwise.delay_asked(failure, asked, own);
        if failure.reason == KV_ERROR_MAP_RETRY_INDICATED {
            // A specification has no maximum of attempts, but the delay that bounds them.
            asked.max(own)
        } else {
            asked
        }
    }

    /// Of the strategy for failures without a specification; RFC 0049's capping if that leaves it
    /// open.
    fn on_deadline(&self) -> Option<OnDeadline> {
        self.otherwise.on_deadline().or(Some(OnDeadline::Cap))
    }

    fn holds(&self) -> bool {
        self.otherwise.holds()
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        self.otherwise.surface(held, new)
    }
}
