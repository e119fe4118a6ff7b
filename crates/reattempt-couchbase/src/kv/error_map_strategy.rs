//! Retrying by the server's own retry specifications, for who asks for it.

use std::sync::Arc;

use reattempt::reason::KV_ERROR_MAP_RETRY_INDICATED;
use reattempt::strategy::BestEffort;
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Surface};

use super::{ErrorMaps, RetrySpec};

/// Retries statuses that only the error map knows by the map's retry specification (RFC 0013, Retry
/// Intervals).
///
/// An explicit choice: RFC 0049 forbids to use these numbers where the user has any other strategy.
/// The specification is found by the failure's status in the [`ErrorMaps`] of the node that the
/// attempt went to. Failures without one are left to another strategy, `BestEffort` unless
/// [`ErrorMapStrategy::otherwise`] says differently.
///
/// The retries of one status are counted as long as it comes back every time; any other failure in
/// between starts them anew. A retry that would go out later than `max-duration` after the first
/// such failure is not waited for: the failure is returned at once.
#[derive(Clone, Debug)]
pub struct ErrorMapStrategy {
    maps: ErrorMaps,
    otherwise: Arc<dyn RetryStrategy>,
}

impl ErrorMapStrategy {
    /// By the specifications of these maps.
    #[must_use]
    pub fn new(maps: ErrorMaps) -> Self {
        Self {
            maps,
            otherwise: Arc::new(BestEffort::new()),
        }
    }

    /// What decides about failures that have no retry specification. Its number of attempts counts
    /// for these only.
    #[must_use]
    pub fn otherwise(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.otherwise = Arc::new(strategy);
        self
    }

    /// Only what the classifier took from a map is retried by a map: a known status is the client's
    /// own business.
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
            // The streak counts failures, this one included: one less is the retries made on this
            // status.
            let delay = spec.delay(view.streak.saturating_sub(1));
            let elapsed = view.now.saturating_duration_since(view.streak_since);
            return match spec.max_duration() {
                Some(max) if elapsed.saturating_add(delay) > max => Decision::Stop,
                _ => Decision::After(delay),
            };
        }
        let attempts = view.retries.saturating_add(1);
        match self.otherwise.max_attempts() {
            Some(max) if attempts >= max => Decision::Stop,
            _ => self.otherwise.decide(view),
        }
    }

    fn on_deadline(&self) -> OnDeadline {
        self.otherwise.on_deadline()
    }

    fn holds(&self) -> bool {
        self.otherwise.holds()
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        self.otherwise.surface(held, new)
    }
}
