//! A decision that the strategy has deferred (RFC 0049's `Future<RetryAction>`).

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::machine::Asked;
use crate::policy::strategy::StrategyError;
use crate::{AttemptKind, Classify, HasCallContext, Replay};
use tower_service::Service;

use super::Deciding;
use super::future::{RetryFuture, State, StateOwned, StateProj};
use crate::clock;
use crate::poll::polled_after_completion;
use crate::recovery::Outcome;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// The strategy finishes its decision later.
    pub(super) fn ask(
        self: Pin<&mut Self>,
        asked: Box<Asked>,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) {
        let mut this = self.project();
        if let StateOwned::Between { failing, .. } =
            this.state.as_mut().project_replace(State::Done)
        {
            let deciding = Box::new(Deciding {
                asked,
                outcome,
                failing,
                held,
            });
            this.state.set(State::Deciding { deciding });
        }
    }

    /// Ready once the strategy has decided, and the machine by that.
    pub(super) fn poll_deciding(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<ControlFlow<Outcome<S, Req>>> {
        let StateProj::Deciding { deciding } = self.as_mut().project().state.project() else {
            polled_after_completion("RetryFuture")
        };
        deciding.failing.poll_beside(cx);
        let decision = ready!(deciding.asked.deferred.as_mut().poll(cx));
        Poll::Ready(self.decided(decision))
    }

    /// The strategy finished its decision.
    fn decided(
        mut self: Pin<&mut Self>,
        decision: Result<Option<Duration>, StrategyError>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let StateOwned::Deciding { deciding } = this.state.as_mut().project_replace(State::Done)
        else {
            polled_after_completion("RetryFuture")
        };
        let Deciding {
            mut asked,
            outcome,
            failing,
            held,
        } = *deciding;
        let failing = Self::settling(this.state, failing);
        if let Err(error) = &decision {
            // The caller gets the attempt's failure, so this error would be lost.
            tracing::warn!(target: "reattempt", "the strategy failed, and the call with it: {error}");
        }
        let attempt = this.source.context_mut().attempt();
        let failure = failing.failure;
        let replayable = this
            .source
            .can_replay(attempt, AttemptKind::Retry, failure.as_ref());
        let context = this.source.context_mut();
        let strategy = this.config.strategy(context);
        let effects = this.config.settings.effects(context);
        let action = failing.driver.decided(
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
