//! Sends further attempts, and handles the cases where this is no longer possible.

use std::pin::Pin;

use reattempt_core::machine::Resume;
use reattempt_core::{Annotated, Classify, NextAttempt, Replay};
use tower_service::Service;

use super::future::{Outcome, RetryFuture};
use super::phase::{Phase, Step};
use super::source::Source;
use crate::clock;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// Nothing more will be sent: drops everything and leaves the end to the deadline.
    pub(super) fn expire(self: Pin<&mut Self>) {
        let this = self.project();
        *this.phase = Phase::Expired;
        *this.recovering = None;
        this.source.shed();
    }

    /// The service failed before it was ready again. A kept failure of the server takes precedence.
    pub(super) fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let this = self.project();
        *this.phase = Phase::Done;
        let (Some(context), Some(recovering)) = (this.source.context(), this.recovering.as_mut())
        else {
            return Err(error);
        };
        recovering.machine.broken(&this.config.env(context, false));
        recovering.kept.take().unwrap_or(Err(error))
    }

    /// The service is ready: sends the next attempt, unless the deadline has passed.
    pub(super) fn send(mut self: Pin<&mut Self>) -> Step<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let (Source::Template { request, service }, Some(recovering)) =
            (&mut *this.source, this.recovering.as_mut())
        else {
            return Step::Pending;
        };
        let context = request.context_mut();
        let resume = recovering
            .machine
            .resume(clock::now(), &this.config.env(context, true));
        if resume != Resume::Send {
            if let (Resume::Return, Some(kept)) = (resume, recovering.kept.take()) {
                *this.phase = Phase::Done;
                return Step::Return(kept);
            }
            self.expire();
            return Step::Pending;
        }
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: recovering.kind,
            after: recovering.verdict.failure(),
        };
        let strategy = this.config.strategy(context);
        let holds = strategy.holds();
        let may_follow = recovering
            .machine
            .may_follow(strategy, this.config.classifier.may_force());
        let copy = if may_follow {
            request.replay(&next)
        } else {
            None
        };
        let context = request.context_mut();
        if copy.is_none() && may_follow && recovering.kept.is_some() {
            // The copy was refused at send time. A kept failure is returned; otherwise the request
            // itself is sent as the last attempt.
            recovering.machine.refused(&this.config.env(context, false));
            *this.phase = Phase::Done;
            return recovering.kept.take().map_or(Step::Pending, Step::Return);
        }
        recovering.machine.sent();
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
                _ => return Step::Pending,
            },
        };
        if !holds {
            recovering.kept = None;
        }
        *this.phase = Phase::Flight;
        this.flight.set(Some(future));
        Step::Again
    }
}
