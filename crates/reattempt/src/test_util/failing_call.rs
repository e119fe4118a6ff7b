//! A call whose attempts fail one after another, without a service.

use std::time::{Duration, Instant};

use crate::driver::{Effects, RetryDriver};
use crate::machine::{Action, Asked, FailedAttempt};
use crate::policy::strategy::StrategyError;
use crate::{CallContext, RetryStrategy, Surface, Verdict};

/// A call whose attempts fail one after another: what a strategy decides, step by step, without a
/// service and without waiting.
///
/// ```
/// use std::time::Instant;
/// use reattempt::machine::Action;
/// use reattempt::strategy::BestEffort;
/// use reattempt::test_util::FailingCall;
/// use reattempt::{Failure, Stage, Verdict, reason::KV_TEMPORARY_FAILURE};
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = Instant::now();
/// let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
/// let mut call = FailingCall::default();
/// let action = call.fails(now, &Verdict::Retry(failure), &BestEffort::new());
/// assert!(matches!(action, Action::Wait(_)));
/// assert_eq!(call.context.attempt(), 2);
/// ```
#[derive(Debug)]
pub struct FailingCall {
    /// The context of the attempt in flight.
    pub context: CallContext,
    driver: RetryDriver,
}

impl Default for FailingCall {
    fn default() -> Self {
        Self::new(CallContext::default())
    }
}

impl FailingCall {
    /// A call with this context, whose first attempt is in flight.
    #[must_use]
    pub fn new(mut context: CallContext) -> Self {
        context.claim_first();
        Self {
            context,
            driver: RetryDriver::default(),
        }
    }

    /// The attempt in flight fails. If another one follows, that is in flight afterwards.
    pub fn fails(
        &mut self,
        now: Instant,
        verdict: &Verdict,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        let effects = effects(&self.context);
        let Some(mut failed) = FailedAttempt::new(&effects.facts(now), verdict) else {
            return Action::Return(Surface::New);
        };
        let action = effects.failed(&mut self.driver, &mut failed, strategy);
        self.goes_on(action)
    }

    /// After [`Action::Ask`]: the strategy's future resolved to this decision. If another attempt
    /// follows, that is in flight afterwards.
    pub fn decides(
        &mut self,
        mut asked: Box<Asked>,
        now: Instant,
        decision: Result<Option<Duration>, StrategyError>,
        strategy: &dyn RetryStrategy,
    ) -> Action {
        let effects = effects(&self.context);
        let (asked, throttle) = (&mut *asked, effects.throttle());
        let action = self
            .driver
            .decided(asked, now, decision, true, strategy, throttle);
        effects.settled(&mut asked.failed.record);
        self.goes_on(action)
    }

    fn goes_on(&mut self, action: Action) -> Action {
        if let Action::Wait(wait) = &action {
            self.driver.sent();
            let next = self.context.attempt() + 1;
            self.context.start_attempt(next, wait.kind);
        }
        action
    }
}

fn effects(context: &CallContext) -> Effects<'_> {
    Effects {
        context,
        transparent: true,
        observer: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Failure, RetryView, Stage, reason::UNKNOWN};

    #[derive(Debug)]
    struct Asks;

    impl RetryStrategy for Asks {
        fn decide(&self, _: &RetryView<'_>) -> Decision {
            Decision::Defer(Box::pin(async { Ok(None) }))
        }

        fn max_attempts(&self) -> Option<u32> {
            None
        }
    }

    #[test]
    fn a_deferred_decision_is_finished_step_by_step() {
        let now = crate::clock::now();
        let mut call = FailingCall::default();
        let verdict = Verdict::Retry(Failure::new(UNKNOWN, Stage::Response).safe(true));
        let delay = Duration::from_millis(5);
        for (decision, attempt) in [(Some(delay), 2), (None, 2)] {
            let Action::Ask(asked) = call.fails(now, &verdict, &Asks) else {
                panic!("the strategy defers")
            };
            let action = call.decides(asked, now, Ok(decision), &Asks);
            assert_eq!(matches!(action, Action::Wait(_)), decision.is_some());
            assert_eq!(call.context.attempt(), attempt);
        }
        let delays = |info: &crate::RetryInfo| -> Vec<_> {
            info.records().map(|record| record.delay).collect()
        };
        assert_eq!(delays(&call.context.info()), [Some(delay), None]);
    }
}
