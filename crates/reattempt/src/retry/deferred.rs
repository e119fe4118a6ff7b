//! A decision that the strategy has deferred (RFC 0049's `Future<RetryAction>`).

use std::ops::ControlFlow;
use std::time::Duration;

use crate::policy::strategy::StrategyError;
use crate::{AttemptKind, Classify, HasCallContext, Replay};
use tower_service::Service;

use super::attempt::Between;
use super::kept::{Kept, Undecided};
use crate::clock;
use crate::recovery::Outcome;

impl<S, C, Req> Between<'_, S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// The strategy finished its decision about the kept failure: the machine goes on by it.
    pub(super) fn decided(
        &mut self,
        decision: Result<Option<Duration>, StrategyError>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let Some(Kept::Undecided(undecided)) = self.kept.take() else {
            return ControlFlow::Continue(());
        };
        let Undecided {
            mut asked,
            outcome,
            held,
        } = *undecided;
        if let Err(error) = &decision {
            // The caller gets the attempt's failure, so this error would be lost.
            tracing::warn!(target: "reattempt", "the strategy failed, and the call with it: {error}");
        }
        let attempt = self.source.context_mut().attempt();
        let replayable = self.can_replay(attempt, AttemptKind::Retry);
        let context = self.source.context_mut();
        let strategy = self.config.strategy(context);
        let effects = self.config.settings.effects(context);
        let action = self.failing.driver.decided(
            &mut asked,
            clock::now(),
            decision,
            replayable,
            strategy,
            effects.throttle(),
        );
        effects.settled(&mut asked.failed.record);
        self.act(action, outcome, held)
    }
}
