//! What follows the end of an attempt: its verdict, the machine's decision, and the next state.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use crate::machine::Action;
use crate::policy::strategy::StrategyError;
use crate::{AttemptKind, Classify, HasCallContext, NextAttempt, Replay, Surface, Verdict};
use tower_service::Service;

use super::failing::Failing;
use super::future::{Deciding, Next, Outcome, RetryFuture, Sent, State, StateOwned};
use super::source::Source;
use crate::clock;
use crate::poll::polled_after_completion;

/// Whether the request could be sent once more after this failure.
fn replayable<S, Req: Replay>(source: &Source<S, Req>, attempt: u32, verdict: &Verdict) -> bool {
    let next = NextAttempt {
        number: attempt + 1,
        kind: AttemptKind::Retry,
        after: verdict.failure(),
    };
    matches!(source, Source::Template { request, .. } if request.can_replay(&next))
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// An attempt ended: classify it.
    pub(super) fn settle(
        mut self: Pin<&mut Self>,
        outcome: Outcome<S, Req>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let context = this.source.context_mut();
        this.config.check_attempt_limit(context);
        let verdict = this.config.classify(outcome.as_ref(), context);
        // The future is dropped before any delay: it may hold a connection.
        let ended = this.state.as_mut().project_replace(State::Done);
        if verdict.failure().is_none() {
            let committed = verdict == Verdict::Committed;
            this.config.effects(context).succeeded(committed);
            return ControlFlow::Break(outcome);
        }
        let failing = match ended {
            StateOwned::InFlight {
                sent: Sent::Again(failing),
                ..
            } => Some(failing),
            _ => None,
        };
        self.failed(verdict, outcome, failing)
    }

    /// An attempt failed: let the machine decide.
    #[cold]
    #[inline(never)]
    pub(super) fn failed(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        failing: Option<Box<Failing<Outcome<S, Req>>>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let mut failing = failing.unwrap_or_else(|| Failing::new(verdict));
        failing.verdict = verdict;
        this.source.describe(this.config.service);
        let now = clock::now();
        let mut facts = this.config.effects(this.source.context_mut()).facts(now);
        facts.replayable = replayable(this.source, facts.attempt, &verdict);
        if let (Err(_), Source::Template { request, .. }) = (&outcome, &*this.source) {
            facts.cut_off = request.was_cut_off(facts.attempt);
            facts.unread = request.was_unread(facts.attempt);
        }
        let classifier = &this.config.classifier;
        facts.on_deadline = classifier.on_deadline();
        if !facts.report.circuit_open {
            let unknown = &this.config.unknown_error;
            unknown.warn_if_unknown("RetryLayer", classifier, outcome.as_ref(), &verdict);
        }
        let context = this.source.context_mut();
        if facts.report.config_coming {
            facts.config_moved = failing.has_moved(context);
        }
        let strategy = this.config.strategy(context);
        let effects = this.config.effects(context);
        let action = failing.driver.failed(facts, &verdict, strategy, &effects);
        self.act(action, outcome, failing)
    }

    /// The strategy finished a decision that it had deferred.
    pub(super) fn decided(
        mut self: Pin<&mut Self>,
        decision: Result<Option<Duration>, StrategyError>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let StateOwned::Between {
            next: Next::Decide(deciding),
            mut failing,
        } = this.state.as_mut().project_replace(State::Done)
        else {
            polled_after_completion("RetryFuture")
        };
        if let Err(error) = &decision {
            // The caller gets the attempt's failure, so this error would be lost.
            tracing::warn!(target: "reattempt", "the strategy failed, and the call with it: {error}");
        }
        let attempt = this.source.context_mut().attempt();
        let replayable = replayable(this.source, attempt, &failing.verdict);
        let context = this.source.context_mut();
        let strategy = this.config.strategy(context);
        let effects = this.config.effects(context);
        let now = clock::now();
        let action = failing
            .driver
            .decided(now, decision, replayable, strategy, &effects);
        self.act(action, deciding.outcome, failing)
    }

    fn act(
        self: Pin<&mut Self>,
        action: Action,
        outcome: Outcome<S, Req>,
        mut failing: Box<Failing<Outcome<S, Req>>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.project();
        let next = match action {
            Action::Return(surface) => {
                let held = failing.kept.take().filter(|_| surface == Surface::Held);
                return ControlFlow::Break(held.unwrap_or(outcome));
            }
            Action::Expire => {
                this.source.shed();
                this.state.set(State::Expired);
                return ControlFlow::Continue(());
            }
            Action::Ask(deferred) => Next::Decide(Box::new(Deciding { deferred, outcome })),
            Action::Wait(wait) => {
                failing.wait(&wait, outcome);
                // After the response was dropped, which may end the request in the transport.
                if let Source::Template { request, .. } = &mut *this.source {
                    let attempt = request.context_mut().attempt();
                    request.attempt_over(attempt);
                }
                if wait.until.is_some() {
                    Next::Wait
                } else {
                    Next::Yield
                }
            }
        };
        this.state.set(State::Between { next, failing });
        ControlFlow::Continue(())
    }
}
