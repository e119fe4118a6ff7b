//! A decision that the strategy finishes later.

use std::time::{Duration, Instant};

use super::RetryDriver;
use crate::machine::{Action, Asked};
use crate::policy::strategy::StrategyError;
use crate::{RetryStrategy, RetryThrottle};

impl RetryDriver {
    /// What follows once the strategy finished a deferred decision. `replayable` is as of now.
    pub fn decided(
        &mut self,
        asked: &mut Asked,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        replayable: bool,
        strategy: &dyn RetryStrategy,
        throttle: Option<&dyn RetryThrottle>,
    ) -> Action {
        let machine = &mut self.machine;
        let action = machine.decided(asked, now, decision, replayable, strategy);
        self.spend(action, &mut asked.failed, throttle)
    }
}
