//! The end of an attempt: its verdict, the machine's decision, and the next attempt.

use std::ops::ControlFlow;
use std::pin::Pin;

use crate::machine::{Action, Resume};
use crate::{AttemptKind, Classify, HasCallContext, NextAttempt, Replay, Surface, Verdict};
use tower_service::Service;

use super::deferred::Deciding;
use super::failing::Failing;
use super::future::{Next, Outcome, RetryFuture, Sent, State, StateOwned, StateProj};
use crate::clock;
use crate::poll::polled_after_completion;
use crate::recovery::Source;

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
        let settings = &this.config.settings;
        settings.warnings.if_attempts_unlimited(context);
        let verdict = settings.classify(outcome.as_ref(), context);
        // The future is dropped before any delay: it may hold a connection.
        let ended = this.state.as_mut().project_replace(State::Done);
        if verdict.failure().is_none() {
            let committed = verdict == Verdict::Committed;
            settings.effects(context).succeeded(committed);
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
        let settings = &this.config.settings;
        this.source.describe(settings.service);
        let effects = settings.effects(this.source.context_mut());
        let mut facts = effects.facts(clock::now());
        let failure = verdict.failure();
        this.source
            .complete(&mut facts, AttemptKind::Retry, failure, outcome.is_err());
        let classifier = &settings.classifier;
        facts.on_deadline = classifier.on_deadline();
        if !facts.report.circuit_open {
            let warnings = &settings.warnings;
            warnings.if_unknown(classifier, outcome.as_ref(), &verdict);
        }
        let context = this.source.context_mut();
        if facts.report.config_coming {
            facts.config_moved = failing.has_moved(context);
        }
        let strategy = this.config.strategy(context);
        let effects = settings.effects(context);
        let action = failing.driver.failed(facts, &verdict, strategy, &effects);
        self.act(action, outcome, failing)
    }

    /// Carries out what the machine decided.
    pub(super) fn act(
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

    /// The service failed before it was ready again. The server's own failure is returned first.
    pub(super) fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let mut this = self.project();
        match this.state.as_mut().project_replace(State::Done) {
            StateOwned::Between { mut failing, .. } => {
                let effects = this.config.settings.effects(this.source.context_mut());
                failing.driver.broken(&effects);
                failing.kept.take().unwrap_or(Err(error))
            }
            _ => Err(error),
        }
    }

    /// The service is ready: send the next attempt, unless the deadline has passed.
    pub(super) fn send(self: Pin<&mut Self>) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.project();
        // The state stays until the attempt is sent, so that a panic of the service or of the
        // observer ends the call as a drop does.
        let (StateProj::Between { failing, .. }, Source::Template { request, service }) =
            (this.state.as_mut().project(), &mut *this.source)
        else {
            polled_after_completion("RetryFuture")
        };
        let context = request.context_mut();
        let effects = this.config.settings.effects(context);
        let resume = failing.driver.resume(clock::now(), &effects);
        if resume != Resume::Send {
            if let (Resume::Return, Some(kept)) = (resume, failing.kept.take()) {
                this.state.set(State::Done);
                return ControlFlow::Break(kept);
            }
            this.source.shed();
            this.state.set(State::Expired);
            return ControlFlow::Continue(());
        }
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: failing.kind,
            after: failing.verdict.failure(),
        };
        let strategy = this.config.strategy(context);
        let holds = strategy.holds();
        let may_force = this.config.settings.classifier.may_force();
        let may_follow = failing.driver.machine.may_follow(strategy, may_force);
        let copy = if may_follow {
            request.replay(&next)
        } else {
            None
        };
        let context = request.context_mut();
        if may_follow && copy.is_none() {
            // The request refused at the last moment. Without a failure that was kept the request
            // itself is sent, as the last attempt.
            if let Some(kept) = failing.kept.take() {
                failing
                    .driver
                    .refused(&this.config.settings.effects(context));
                this.state.set(State::Done);
                return ControlFlow::Break(kept);
            }
        }
        failing.driver.sent();
        context.start_attempt(next.number, next.kind);
        let context = context.clone();
        this.config.settings.observer.attempt_sent(&context);
        let future = match copy {
            Some(mut copy) => {
                *copy.context_mut() = context;
                service.call(copy)
            }
            None => match std::mem::replace(this.source, Source::Last(context)) {
                Source::Template {
                    request,
                    mut service,
                } => service.call(request),
                Source::Last(_) => polled_after_completion("RetryFuture"),
            },
        };
        if !holds {
            failing.kept = None;
        }
        let future = Some(future);
        if let StateOwned::Between { failing, .. } =
            this.state.as_mut().project_replace(State::Done)
        {
            let sent = Sent::Again(failing);
            this.state.set(State::InFlight { future, sent });
        }
        ControlFlow::Continue(())
    }
}
