//! A decision that the strategy finishes later (RFC 0049's `Future<RetryAction>`).

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::retry::{Action, RetryMachine};
use crate::policy::strategy::StrategyError;
use crate::{RetryStrategy, StopReason};

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
