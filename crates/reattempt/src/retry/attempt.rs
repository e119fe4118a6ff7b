//! Between two attempts: the machine's decision on the one that failed, and the next one.

use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use crate::machine::{Action, FailedAttempt, Keep, Resume, Wait};
use crate::{
    AttemptKind, Classify, HasCallContext, NextAttempt, Replay, StopReason, Surface, Verdict,
};
use tower_service::Service;

use super::kept::{Kept, Undecided};
use super::{Config, Failing, Next};
use crate::clock;
use crate::poll::polled_after_completion;
use crate::recovery::{Outcome, Source};

/// After every fourth attempt without a delay other tasks run once, so that a call which fails at
/// once does not hold up its thread.
const MOST_AT_ONCE: u32 = 4;

/// The call has its outcome, or another attempt is with the inner service.
type Step<S, Req> = ControlFlow<Outcome<S, Req>, <S as Service<Req>>::Future>;

/// A call between two attempts: the parts of its future that are used then.
pub(super) struct Between<'a, S, C, Req>
where
    S: Service<Req>,
{
    pub(super) failing: &'a mut Failing,
    pub(super) kept: &'a mut Option<Kept<Outcome<S, Req>>>,
    pub(super) source: &'a mut Source<S, Req>,
    pub(super) config: &'a Config<C>,
}

impl<S, C, Req> Between<'_, S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// An attempt failed: lets the machine decide. `held` is the failure that the strategy holds.
    pub(super) fn failed(
        &mut self,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let failure = verdict.failure();
        self.failing.failure = failure.copied();
        let settings = &self.config.settings;
        self.source.describe(settings.service.as_ref());
        let effects = settings.effects(self.source.context_mut());
        let mut facts = effects.facts(clock::now());
        self.source
            .complete(&mut facts, AttemptKind::Retry, failure, outcome.is_err());
        let classifier = &settings.classifier;
        facts.on_deadline = classifier.on_deadline();
        if !facts.report.circuit_open {
            let warnings = &settings.warnings;
            warnings.if_unknown(classifier, outcome.as_ref(), &verdict);
        }
        let context = self.source.context_mut();
        if facts.report.config_coming {
            facts.config_moved = self.failing.has_moved(context);
        }
        let strategy = self.config.strategy(context);
        let effects = settings.effects(context);
        let mut failed = FailedAttempt::new(&facts, &verdict);
        let Some(failed) = &mut failed else {
            return ControlFlow::Break(outcome);
        };
        let action = effects.failed(&mut self.failing.driver, failed, strategy);
        self.act(action, outcome, held)
    }

    /// Carries out what the machine decided.
    pub(super) fn act(
        &mut self,
        action: Action,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        match action {
            Action::Return(surface) => {
                let held = held.filter(|_| surface == Surface::Held);
                return ControlFlow::Break(held.unwrap_or(outcome));
            }
            Action::Expire(surface) => {
                let held = held.filter(|_| surface == Surface::Held);
                self.expire(held.unwrap_or(outcome));
            }
            Action::Ask(asked) => {
                *self.kept = Some(Kept::Undecided(Box::new(Undecided {
                    asked,
                    outcome,
                    held,
                })));
            }
            Action::Wait(wait) => return self.wait(&wait, outcome, held),
        }
        ControlFlow::Continue(())
    }

    /// Another attempt follows: keeps the failure that may be returned in place of it.
    fn wait(
        &mut self,
        wait: &Wait,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let attempt = self.source.context_mut().attempt();
        match wait.keep {
            Keep::New => *self.kept = Some(Kept::Failure(outcome)),
            Keep::Held => {
                drop(outcome);
                *self.kept = held.map(Kept::Failure);
            }
            Keep::Error if outcome.is_err() => *self.kept = Some(Kept::Failure(outcome)),
            // The body may have outgrown its buffer since it was asked: then the server's answer is
            // all that there is.
            Keep::Error if !self.can_replay(attempt, wait.kind) => {
                self.unsent(StopReason::NotReplayable);
                return ControlFlow::Break(outcome);
            }
            Keep::Error => drop(outcome),
        }
        self.failing.wait(wait);
        self.failing.next = match wait.until {
            Some(_) => Next::Wait,
            None if attempt % MOST_AT_ONCE == 0 => Next::Yield,
            None => Next::AtOnce,
        };
        // After the response was dropped, which may end the request in the transport. The request
        // of a kept one goes on until another attempt is sent.
        let is_kept = wait.keep == Keep::New && matches!(self.kept, Some(Kept::Failure(Ok(_))));
        if let (false, Source::Template { request, .. }) = (is_kept, &*self.source) {
            request.attempt_over(attempt);
        }
        ControlFlow::Continue(())
    }

    /// Whether the request could be sent once more after this attempt.
    pub(super) fn can_replay(&self, attempt: u32, kind: AttemptKind) -> bool {
        let failure = self.failing.failure.as_ref();
        self.source.can_replay(attempt, kind, failure)
    }

    /// A late gate: the attempt that was waited for is not sent.
    pub(super) fn unsent(&mut self, stopped: StopReason) {
        let effects = self.config.settings.effects(self.source.context_mut());
        effects.unsent(&mut self.failing.driver, stopped);
    }

    /// Waits, gets the service ready, and sends the next attempt; or the call ends here.
    pub(super) fn poll(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<Step<S, Req>> {
        loop {
            match self.failing.next {
                Next::Settle => {
                    let Some(Kept::Undecided(undecided)) = self.kept else {
                        // User code panicked, as in `Send`.
                        polled_after_completion("RetryFuture")
                    };
                    self.failing.poll_beside(cx);
                    let decision = ready!(undecided.asked.deferred.as_mut().poll(cx));
                    if let ControlFlow::Break(outcome) = self.decided(decision) {
                        return Poll::Ready(ControlFlow::Break(outcome));
                    }
                }
                Next::Wait => {
                    let moved = ready!(self.failing.poll_wait(owner, cx));
                    self.failing.next = if moved {
                        let effects = self.config.settings.effects(self.source.context_mut());
                        effects.waited_until(clock::now());
                        // No delay is left, so other tasks run once: a configuration that is always
                        // newer must not hold up the deadline.
                        Next::Yield
                    } else {
                        Next::Ready
                    };
                }
                Next::Yield => {
                    self.failing.next = Next::Ready;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Next::Late(polls) => {
                    return self.poll_late(polls, owner, cx).map(ControlFlow::Break);
                }
                Next::Send => polled_after_completion("RetryFuture"),
                Next::Ready | Next::AtOnce => {
                    if let Some(step) = ready!(self.poll_send(cx)) {
                        return Poll::Ready(step);
                    }
                }
            }
        }
    }

    /// Gets the service ready and sends the next attempt, or ends the call. `None` if the deadline
    /// has passed and is waited for.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step<S, Req>>> {
        let Source::Template { request, service } = &mut *self.source else {
            polled_after_completion("RetryFuture")
        };
        match service.poll_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Some(ControlFlow::Break(self.broken(error))));
            }
            Poll::Pending => {
                self.failing.next = Next::Ready;
                return Poll::Pending;
            }
        }
        let context = &*request.context_mut();
        // If nothing was waited for, the instant counts at which the failure was read, and by which
        // it was decided.
        let resume = match (self.failing.next, context.deadline()) {
            (Next::AtOnce, _) | (_, None) => Resume::Send,
            (_, deadline) => Resume::at(clock::now(), deadline),
        };
        match resume {
            Resume::Send => {}
            Resume::Expire => {
                self.late();
                return Poll::Ready(None);
            }
            // Without a failure to return, a call that no layer ends sends what it waited to send.
            Resume::Return => {
                if let Some(kept) = self.kept.take().and_then(Kept::failure) {
                    self.unsent(StopReason::Deadline);
                    // The service may hold a permit for the attempt that is not sent.
                    self.source.shed();
                    return Poll::Ready(Some(ControlFlow::Break(kept)));
                }
            }
        }
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: self.failing.kind,
            after: self.failing.failure.as_ref(),
        };
        let machine = &self.failing.driver.machine;
        let holds = machine.holds();
        let may_follow = !machine.is_last() || self.config.settings.classifier.may_force();
        let (number, kind) = (next.number, next.kind);
        self.failing.next = Next::Send;
        // The request may refuse at the last moment, also to be sent itself: its body may have
        // outgrown its buffer. Without a failure that was kept it is sent all the same.
        let is_asked = match self.kept {
            Some(Kept::Failure(Ok(_))) => true,
            Some(Kept::Failure(Err(_))) => !may_follow,
            Some(Kept::Undecided(_)) | None => false,
        };
        let mut refused = is_asked && !request.can_replay(&next);
        if !refused && matches!(self.kept, Some(Kept::Failure(Ok(_)))) {
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
            if let Some(kept) = self.kept.take().and_then(Kept::failure) {
                self.unsent(StopReason::NotReplayable);
                self.source.shed();
                return Poll::Ready(Some(ControlFlow::Break(kept)));
            }
        }
        if !holds {
            *self.kept = None;
        }
        let context = request.context_mut();
        context.start_attempt(number, kind);
        self.config.settings.sent_again(context);
        self.failing.driver.sent();
        let future = match copy {
            Some(mut copy) => {
                copy.context_mut().follow(context);
                service.call(copy)
            }
            None => {
                let last = Source::Last(context.clone());
                match std::mem::replace(self.source, last) {
                    Source::Template {
                        request,
                        mut service,
                    } => service.call(request),
                    Source::Last(_) => polled_after_completion("RetryFuture"),
                }
            }
        };
        Poll::Ready(Some(ControlFlow::Continue(future)))
    }
}
