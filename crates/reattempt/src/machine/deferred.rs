//! A decision that the strategy finishes later (RFC 0049's `Future<RetryAction>`).

use std::time::{Duration, Instant};

use super::retry::{Action, RetryMachine};
use crate::attempt::FailedAttempt;
use crate::policy::strategy::{Deferred, StrategyError};
use crate::{RetryStrategy, StopReason};

/// A decision that the strategy finishes later.
pub struct Asked {
    /// The strategy's future.
    pub deferred: Deferred,
    /// The attempt that it is about.
    pub failed: FailedAttempt,
    /// The throttle's answer to its failure.
    pub(super) allowed: bool,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut asked = f.debug_struct("Asked");
        asked.field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl RetryMachine {
    /// What follows the failed attempt once a deferred decision is known. An error fails the call
    /// at once. `replayable` is as of now.
    pub fn decided(
        &mut self,
        asked: &mut Asked,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        replayable: bool,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        let failed = &mut asked.failed;
        let Ok(Some(delay)) = decision else {
            return self.stop(StopReason::Strategy, failed, strategy);
        };
        // The delay begins now, not when the attempt ended.
        (failed.facts.now, failed.facts.replayable) = (now, replayable);
        self.gates(delay, failed, asked.allowed, strategy)
    }
}
