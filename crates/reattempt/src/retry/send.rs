//! The next attempt is sent, or the call ends where that is no longer possible.

use std::ops::ControlFlow;
use std::pin::Pin;

use crate::machine::Resume;
use crate::{Classify, HasCallContext, NextAttempt, Replay};
use tower_service::Service;

use super::future::{Outcome, RetryFuture, Sent, State, StateOwned, StateProj};
use super::source::Source;
use crate::clock;
use crate::poll::polled_after_completion;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// The service failed before it was ready again. The server's own failure is returned first.
    pub(super) fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let mut this = self.project();
        match this.state.as_mut().project_replace(State::Done) {
            StateOwned::Between { mut failing, .. } => {
                let effects = this.config.effects(this.source.context_mut());
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
        let effects = this.config.effects(context);
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
        let may_force = this.config.classifier.may_force();
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
                failing.driver.refused(&this.config.effects(context));
                this.state.set(State::Done);
                return ControlFlow::Break(kept);
            }
        }
        failing.driver.sent();
        context.start_attempt(next.number, next.kind);
        let context = context.clone();
        this.config.observer.attempt_sent(&context);
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
