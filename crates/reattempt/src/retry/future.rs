use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt_core::machine::{Action, Resume};
use reattempt_core::strategy::{Deferred, StrategyError};
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, NextAttempt, Replay, Surface, Verdict,
};
use tower_service::Service;

use super::Config;
use super::recovering::Recovering;
use super::source::Source;
use crate::clock;
use crate::stamping::as_poll;

/// The inner service's own result.
type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Retry`](super::Retry). Unboxed; what only a failing call needs is allocated
    /// with its first failure.
    pub struct RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: Annotated,
    {
        // The attempt that is out.
        #[pin]
        pub(super) flight: Option<S::Future>,
        pub(super) source: Source<S, Req>,
        pub(super) config: Arc<Config<C>>,
        pub(super) recovering: Option<Box<Recovering<Outcome<S, Req>>>>,
        pub(super) phase: Phase,
    }

    impl<S, C, Req> PinnedDrop for RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: Annotated,
    {
        #[inline(always)]
        fn drop(this: Pin<&mut Self>) {
            if !matches!(this.phase, Phase::Done | Phase::Claimed | Phase::Passing | Phase::Expired) {
                this.abandoned();
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first attempt is out, and nobody wants to hear of it if it works.
    First,
    /// An attempt of ours is out.
    Flight,
    /// Over: the outcome was returned.
    Done,
    /// Not ours: a recovery layer above acts.
    Claimed,
    /// Not ours: a recovery layer below has to act.
    Passing,
    /// The strategy is making its decision.
    Asking,
    Waiting,
    /// A zero delay touches no timer, but lets other tasks run once.
    Yielding,
    Readying,
    /// Nothing more is sent; the deadline above ends the call.
    Expired,
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: Annotated,
{
    /// Dropped before it was over.
    #[cold]
    #[inline(never)]
    fn abandoned(self: Pin<&mut Self>) {
        let this = self.project();
        let Some(context) = this.source.context() else {
            return;
        };
        let env = this.config.env(context, false);
        let stopped = env.why_dropped(clock::now());
        if matches!(this.phase, Phase::First | Phase::Flight) {
            env.cancelled(Some(stopped));
        }
        match this.recovering {
            Some(recovering) => recovering.machine.dropped(stopped, &env),
            None => env.ended(stopped),
        }
    }
}

impl<S, C, Req> fmt::Debug for RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: Annotated,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture")
            .field("context", &self.source.context())
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

/// Where the loop goes next.
enum Step<O> {
    Again,
    Return(O),
    Pending,
}

/// Could the request be sent once more after this failure?
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
    /// Polls a first attempt. Where it works and nobody wants to hear of it the call ends here.
    #[inline(always)]
    fn poll_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let (Some(flight), Source::Template { request, .. }) =
            (this.flight.as_mut().as_pin_mut(), this.source)
        else {
            return Poll::Pending;
        };
        let outcome = ready!(flight.poll(cx));
        let context = request.context_mut();
        let verdict = this.config.classifier.classify(outcome.as_ref(), context);
        // Dropped before any delay: it may hold a connection.
        this.flight.set(None);
        *this.phase = Phase::Done;
        if verdict.failure().is_some() {
            return as_poll(self.failed_first(verdict, outcome, cx));
        }
        context.settle_success(verdict == Verdict::Committed);
        context.retire();
        request.release();
        Poll::Ready(outcome)
    }

    // An `Option`, so that what is cold does not share the place of the hot path's outcome, which then stays in registers.
    #[cold]
    #[inline(never)]
    fn failed_first(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        cx: &mut Context<'_>,
    ) -> Option<Outcome<S, Req>> {
        match self.as_mut().failed(verdict, outcome) {
            Step::Again => self.poll_on(cx),
            Step::Return(outcome) => {
                self.project().source.release();
                Some(outcome)
            }
            Step::Pending => None,
        }
    }

    /// An attempt is over: classify it.
    fn settle(mut self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Step<Outcome<S, Req>> {
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

    /// An attempt failed: let the machine decide.
    #[cold]
    #[inline(never)]
    fn failed(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
    ) -> Step<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let Some(context) = this.source.context() else {
            return Step::Return(outcome);
        };
        if let Source::Template { request, .. } = &*this.source {
            request.attempt_over(context.attempt());
        }
        let replayable = replayable(this.source, context, &verdict);
        let recovering = this
            .recovering
            .get_or_insert_with(|| Recovering::new(verdict));
        recovering.verdict = verdict;
        let strategy = this.config.strategy(context);
        let env = this.config.env(context, replayable);
        let found = context.findings();
        let action = recovering
            .machine
            .failed(clock::now(), &verdict, found, strategy, &env);
        self.act(action, outcome)
    }

    /// A deferred decision is there.
    fn decided(
        mut self: Pin<&mut Self>,
        decision: Result<Option<std::time::Duration>, StrategyError>,
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
        let replayable = replayable(this.source, context, &recovering.verdict);
        let strategy = this.config.strategy(context);
        let env = this.config.env(context, replayable);
        let action = recovering
            .machine
            .decided(clock::now(), decision, strategy, &env);
        self.act(action, outcome)
    }

    fn act(
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
                recovering.wait(&wait, outcome, context);
                *this.phase = if wait.until.is_some() {
                    Phase::Waiting
                } else {
                    Phase::Yielding
                };
                Step::Again
            }
        }
    }

    /// Nothing more will be sent: let go of everything and leave the rest to the deadline.
    fn expire(self: Pin<&mut Self>) {
        let this = self.project();
        *this.phase = Phase::Expired;
        *this.recovering = None;
        this.source.shed();
    }

    /// The service broke while it was to get ready again. The server's own failure beats it.
    fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let this = self.project();
        *this.phase = Phase::Done;
        let (Some(context), Some(recovering)) = (this.source.context(), this.recovering.as_mut())
        else {
            return Err(error);
        };
        recovering.machine.broken(&this.config.env(context, false));
        recovering.kept.take().unwrap_or(Err(error))
    }

    /// The service is ready: send the next attempt, unless the time is up.
    fn send(mut self: Pin<&mut Self>) -> Step<Outcome<S, Req>> {
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
            // Refused at the last moment. A failure that was kept is the call's; else the
            // request itself goes out as the last attempt.
            recovering.machine.refused(&this.config.env(context, false));
            *this.phase = Phase::Done;
            return recovering.kept.take().map_or(Step::Pending, Step::Return);
        }
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

    /// Passing through, but nobody below claimed the call: count it all the same (A6: every RPC counts).
    fn passed(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let mut this = self.project();
        this.flight.set(None);
        let phase = std::mem::replace(this.phase, Phase::Done);
        if let (Phase::Passing, Source::Last(context)) = (phase, this.source) {
            if !context.is_taken_up() {
                this.config.no_hedge_layer.warn(
                    "RetryLayer",
                    "got a policy that hedges, but no HedgeLayer stands below or above it",
                );
                let verdict = this.config.classifier.classify(outcome.as_ref(), context);
                let found = context.findings();
                this.config
                    .env(context, false)
                    .passed(clock::now(), &verdict, found);
            }
        }
        outcome
    }

    /// One step of a call whose first attempt is not simply out.
    #[inline(never)]
    fn step(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Step<Outcome<S, Req>> {
        let this = self.as_mut().project();
        match this.phase {
            Phase::Claimed | Phase::Passing => {
                match this.flight.as_pin_mut().map(|future| future.poll(cx)) {
                    Some(Poll::Ready(outcome)) => Step::Return(self.passed(outcome)),
                    _ => Step::Pending,
                }
            }
            Phase::Asking => match poll_asked(this.recovering, cx) {
                Poll::Ready(decision) => self.decided(decision),
                Poll::Pending => Step::Pending,
            },
            Phase::Waiting => match this.recovering.as_mut().map(|r| r.poll_wait(cx)) {
                Some(Poll::Ready(moved)) => {
                    if let (true, Some(context), Some(recovering)) =
                        (moved, this.source.context(), this.recovering.as_ref())
                    {
                        let env = this.config.env(context, true);
                        recovering.machine.nudged(clock::now(), &env);
                    }
                    // No delay is left, so that other tasks run once, as after a zero delay: a
                    // configuration that is always newer must not hold up the deadline.
                    *this.phase = if moved {
                        Phase::Yielding
                    } else {
                        Phase::Readying
                    };
                    Step::Again
                }
                _ => Step::Pending,
            },
            Phase::Yielding => {
                cx.waker().wake_by_ref();
                *this.phase = Phase::Readying;
                Step::Pending
            }
            Phase::Readying => {
                let Source::Template { service, .. } = this.source else {
                    return Step::Pending;
                };
                match service.poll_ready(cx) {
                    Poll::Pending => Step::Pending,
                    Poll::Ready(Err(error)) => Step::Return(self.broken(error)),
                    Poll::Ready(Ok(())) => self.send(),
                }
            }
            Phase::First | Phase::Flight | Phase::Expired | Phase::Done => Step::Pending,
        }
    }
}

fn poll_asked<O>(
    recovering: &mut Option<Box<Recovering<O>>>,
    cx: &mut Context<'_>,
) -> Poll<<Deferred as Future>::Output> {
    match recovering.as_mut().and_then(|r| r.asked.as_mut()) {
        Some((deferred, _)) => deferred.as_mut().poll(cx),
        None => Poll::Pending,
    }
}

impl<S, C, Req> Future for RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Output = Outcome<S, Req>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.phase == Phase::First {
            self.poll_first(cx)
        } else {
            as_poll(self.poll_on(cx))
        }
    }
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// Anything but a first attempt that works.
    #[inline(never)]
    fn poll_on(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        loop {
            let step = if self.phase == Phase::Flight {
                let flight = self.as_mut().project().flight.as_pin_mut()?;
                let Poll::Ready(outcome) = flight.poll(cx) else {
                    return None;
                };
                self.as_mut().settle(outcome)
            } else {
                self.as_mut().step(cx)
            };
            match step {
                Step::Again => {}
                Step::Return(outcome) => {
                    self.project().source.release();
                    return Some(outcome);
                }
                Step::Pending => return None,
            }
        }
    }
}
