//! Settles attempts through the machine.

use std::pin::Pin;
use std::time::Duration;

use reattempt_core::machine::Action;
use reattempt_core::strategy::StrategyError;
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, NextAttempt, Replay, Surface, Verdict,
};
use tower_service::Service;

use super::future::{Outcome, RetryFuture};
use super::phase::{Phase, Step};
use super::recovering::Recovering;
use super::source::Source;
use crate::clock;

/// Whether the request could be sent once more after this failure.
fn replayable<S, Req: Replay>(
    source: &Source<S, Req>,
    context: &CallContext,
    verdict: &Verdict,
) -> bool {
    let next = NextAttempt {
        number: context.attempt() + 1,
        kind: AttemptKind::Retry,
        after: verdict.failure(),
    };
    matches!(source, Source::Template { request, .. } if request.can_replay(&next))
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// An attempt is over: classifies it.
    pub(super) fn settle(
        mut self: Pin<&mut Self>,
        outcome: Outcome<S, Req>,
    ) -> Step<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let Some(context) = this.source.context_mut() else {
            return Step::Return(outcome);
        };
        if context.has_policy() {
            let warning = &this.config.no_attempt_deadline;
            warning.warn_if_attempts_unlimited("RetryLayer", context);
        }
        let verdict = this.config.classifier.classify(outcome.as_ref(), context);
        // Dropped before any delay: it may hold a connection.
        this.flight.set(None);
        *this.phase = Phase::Done;
        if verdict.failure().is_some() {
            return self.failed(verdict, outcome);
        }
        let committed = verdict == Verdict::Committed;
        this.config.env(context, false).succeeded(committed);
        context.retire();
        Step::Return(outcome)
    }

    /// An attempt failed: the machine decides.
    #[cold]
    #[inline(never)]
    pub(super) fn failed(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
    ) -> Step<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let Some(context) = this.source.context() else {
            return Step::Return(outcome);
        };
        let replayable = replayable(this.source, context, &verdict);
        let recovering = this
            .recovering
            .get_or_insert_with(|| Recovering::new(verdict));
        recovering.verdict = verdict;
        let strategy = this.config.strategy(context);
        let env = this.config.env(context, replayable);
        let mut found = context.findings();
        if let (Err(_), Source::Template { request, .. }) = (&outcome, &*this.source) {
            found.cut_off = request.was_cut_off(context.attempt());
            found.unread = request.was_unread(context.attempt());
        }
        if found.config_coming {
            found.config_moved = recovering.has_moved(context);
        }
        let action = recovering
            .machine
            .failed(clock::now(), &verdict, found, strategy, &env);
        self.act(action, outcome)
    }

    /// A deferred decision is available.
    pub(super) fn decided(
        mut self: Pin<&mut Self>,
        decision: Result<Option<Duration>, StrategyError>,
    ) -> Step<Outcome<S, Req>> {
        let this = self.as_mut().project();
        *this.phase = Phase::Done;
        let (Some(context), Some(recovering)) = (this.source.context(), this.recovering.as_mut())
        else {
            return Step::Pending;
        };
        let Some((_, outcome)) = recovering.asked.take() else {
            return Step::Pending;
        };
        if let Err(error) = &decision {
            // The caller gets the attempt's failure, so the strategy's error is only logged.
            tracing::warn!(target: "reattempt", "the strategy failed, so the call fails: {error}");
        }
        let replayable = replayable(this.source, context, &recovering.verdict);
        let strategy = this.config.strategy(context);
        let env = this.config.env(context, replayable);
        let action = recovering
            .machine
            .decided(clock::now(), decision, strategy, &env);
        self.act(action, outcome)
    }

    pub(super) fn act(
        mut self: Pin<&mut Self>,
        action: Action,
        outcome: Outcome<S, Req>,
    ) -> Step<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let (Some(context), Some(recovering)) = (this.source.context(), this.recovering.as_mut())
        else {
            return Step::Return(outcome);
        };
        match action {
            Action::Return(surface) => {
                *this.phase = Phase::Done;
                let held = recovering.kept.take().filter(|_| surface == Surface::Held);
                Step::Return(held.unwrap_or(outcome))
            }
            Action::Ask(deferred) => {
                recovering.asked = Some((deferred, outcome));
                *this.phase = Phase::Asking;
                Step::Again
            }
            Action::Expire => {
                self.expire();
                Step::Pending
            }
            Action::Wait(wait) => {
                recovering.wait(&wait, outcome);
                // Called after the response was dropped, since that may end the request in the
                // transport.
                if let Source::Template { request, .. } = &*this.source {
                    request.attempt_over(context.attempt());
                }
                *this.phase = if wait.until.is_some() {
                    Phase::Waiting
                } else {
                    Phase::Yielding
                };
                Step::Again
            }
        }
    }
}
