//! The end of an attempt: its verdict, the machine's decision, and the next attempt.

use std::ops::ControlFlow;
use std::pin::Pin;

use crate::machine::{Action, FailedAttempt, Keep, Resume};
use crate::{
    AttemptKind, Classify, HasCallContext, NextAttempt, Replay, StopReason, Surface, Verdict,
};
use tower_service::Service;

use super::future::{RetryFuture, Sent, State, StateOwned, StateProj};
use super::{Failing, Next};
use crate::clock;
use crate::poll::polled_after_completion;
use crate::recovery::{Outcome, Source};

/// After every fourth attempt without a delay other tasks run once, so that a call which fails at
/// once does not hold up its thread.
const MOST_AT_ONCE: u32 = 4;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// An attempt failed: its future is dropped before any delay, because it may hold a connection.
    /// Then user code is asked what follows, and a panic of it ends the call as a drop does.
    pub(super) fn settling(
        mut state: Pin<&mut State<S::Future, Outcome<S, Req>>>,
        mut failing: Box<Failing>,
    ) -> &mut Failing {
        failing.next = Next::Settle;
        let kept = None;
        state.set(State::Between { failing, kept });
        match state.project() {
            StateProj::Between { failing, .. } => failing,
            _ => polled_after_completion("RetryFuture"),
        }
    }

    /// An attempt failed: let the machine decide. `held` is the failure that the strategy holds.
    #[cold]
    #[inline(never)]
    pub(super) fn failed(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        failing: Option<Box<Failing>>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let failing = failing.unwrap_or_else(Failing::take);
        let failing = Self::settling(this.state, failing);
        let failure = verdict.failure();
        failing.failure = failure.copied();
        let settings = &this.config.settings;
        this.source.describe(settings.service.as_ref());
        let effects = settings.effects(this.source.context_mut());
        let mut facts = effects.facts(clock::now());
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
        let mut failed = FailedAttempt::new(&facts, &verdict);
        let Some(failed) = &mut failed else {
            return ControlFlow::Break(outcome);
        };
        let action = effects.failed(&mut failing.driver, failed, strategy);
        self.act(action, outcome, held)
    }

    /// Carries out what the machine decided.
    pub(super) fn act(
        mut self: Pin<&mut Self>,
        action: Action,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let StateProj::Between { failing, kept } = this.state.as_mut().project() else {
            polled_after_completion("RetryFuture")
        };
        match action {
            Action::Return(surface) => {
                let held = held.filter(|_| surface == Surface::Held);
                return ControlFlow::Break(held.unwrap_or(outcome));
            }
            Action::Expire(surface) => self.expire(surface, outcome, held),
            Action::Ask(asked) => self.ask(asked, outcome, held),
            Action::Wait(wait) => {
                let settings = &this.config.settings;
                let attempt = this.source.context_mut().attempt();
                match wait.keep {
                    Keep::New => *kept = Some(outcome),
                    Keep::Held => {
                        drop(outcome);
                        *kept = held;
                    }
                    Keep::Error if outcome.is_err() => *kept = Some(outcome),
                    // The body may have outgrown its buffer since it was asked: then the server's
                    // answer is all that there is.
                    Keep::Error
                        if !this.source.can_replay(
                            attempt,
                            wait.kind,
                            failing.failure.as_ref(),
                        ) =>
                    {
                        let effects = settings.effects(this.source.context_mut());
                        effects.unsent(&mut failing.driver, StopReason::NotReplayable);
                        return ControlFlow::Break(outcome);
                    }
                    Keep::Error => drop(outcome),
                }
                failing.wait(&wait);
                failing.next = match wait.until {
                    Some(_) => Next::Wait,
                    None if attempt % MOST_AT_ONCE == 0 => Next::Yield,
                    None => Next::AtOnce,
                };
                // After the response was dropped, which may end the request in the transport. The
                // request of a kept one goes on until another attempt is sent.
                let is_kept = wait.keep == Keep::New && matches!(kept, Some(Ok(_)));
                if let (false, Source::Template { request, .. }) = (is_kept, &*this.source) {
                    request.attempt_over(attempt);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The service is ready: send the next attempt, unless the deadline has passed.
    pub(super) fn send(mut self: Pin<&mut Self>) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        // The state stays until the attempt is sent, so that a panic of the service or of the
        // observer ends the call as a drop does.
        let (StateProj::Between { failing, kept }, Source::Template { request, service }) =
            (this.state.as_mut().project(), &mut *this.source)
        else {
            polled_after_completion("RetryFuture")
        };
        let context = &*request.context_mut();
        // If nothing was waited for, the instant counts at which the failure was read, and by which
        // it was decided.
        let resume = match (failing.next, context.deadline()) {
            (Next::AtOnce, _) | (_, None) => Resume::Send,
            (_, deadline) => Resume::at(clock::now(), deadline),
        };
        match (resume, kept.is_some()) {
            // Without a failure to return, a call that no layer ends sends what it waited to send.
            (Resume::Send, _) | (Resume::Return, false) => {}
            _ => return self.late(resume == Resume::Expire),
        }
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: failing.kind,
            after: failing.failure.as_ref(),
        };
        let machine = &failing.driver.machine;
        let holds = machine.holds();
        let may_follow = !machine.is_last() || this.config.settings.classifier.may_force();
        let (number, kind) = (next.number, next.kind);
        failing.next = Next::Send;
        // The request may refuse at the last moment, also to be sent itself: its body may have
        // outgrown its buffer. Without a failure that was kept it is sent all the same.
        let is_asked = match kept {
            Some(Ok(_)) => true,
            Some(Err(_)) => !may_follow,
            None => false,
        };
        let mut refused = is_asked && !request.can_replay(&next);
        if !refused && matches!(kept, Some(Ok(_))) {
            // Before the copy: what is read for the kept response is read no further.
            request.attempt_over(number - 1);
        }
        let copy = if may_follow && !refused {
            request.replay(&next)
        } else {
            None
        };
        refused |= may_follow && copy.is_none();
        if refused {
            if let Some(kept) = kept.take() {
                let effects = this.config.settings.effects(request.context_mut());
                effects.unsent(&mut failing.driver, StopReason::NotReplayable);
                this.source.shed();
                return ControlFlow::Break(kept);
            }
        }
        if !holds {
            *kept = None;
        }
        let context = request.context_mut();
        context.start_attempt(number, kind);
        this.config.settings.sent_again(context);
        failing.driver.sent();
        let future = match copy {
            Some(mut copy) => {
                copy.context_mut().follow(context);
                service.call(copy)
            }
            None => {
                let last = Source::Last(context.clone());
                match std::mem::replace(this.source, last) {
                    Source::Template {
                        request,
                        mut service,
                    } => service.call(request),
                    Source::Last(_) => polled_after_completion("RetryFuture"),
                }
            }
        };
        if let StateOwned::Between { failing, kept } =
            this.state.as_mut().project_replace(State::Done)
        {
            let sent = match kept {
                Some(kept) => Sent::Holding(Box::new((failing, kept))),
                None => Sent::Again(failing),
            };
            let future = Some(future);
            this.state.set(State::InFlight { future, sent });
        }
        ControlFlow::Continue(())
    }
}
