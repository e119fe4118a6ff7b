//! A call whose attempts fail one after another, without a service.

use std::time::Instant;

use crate::driver::RetryDriver;
use crate::effects::Effects;
use crate::machine::{Action, FailedAttempt};
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
        let effects = Effects {
            context: &self.context,
            transparent: true,
            observer: None,
        };
        let Some(mut failed) = FailedAttempt::new(&effects.facts(now), verdict) else {
            return Action::Return(Surface::New);
        };
        let action = effects.failed(&mut self.driver, &mut failed, strategy);
        if let Action::Wait(wait) = &action {
            self.driver.sent();
            let next = self.context.attempt() + 1;
            self.context.start_attempt(next, wait.kind);
        }
        action
    }
}
