use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use reattempt_core::findings::ConfigWaiter;
use reattempt_core::machine::{Action, Keep, Resume, RetryMachine, Wait};
use reattempt_core::strategy::{Deferred, StrategyError};
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, NextAttempt, Replay, Surface, Verdict,
};
use tokio::time::Sleep;
use tower_service::Service;

use super::Config;
use crate::clock;

/// The inner service's own result.
type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Retry`](super::Retry). Unboxed; what only a failing call needs is allocated
    /// with its first failure.
    pub struct RetryFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S::Future>,
        // The context of the attempt that is out or was out last.
        context: Option<CallContext>,
        config: Arc<Config<C>>,
        template: Option<Req>,
        service: Option<S>,
        recovering: Option<Box<Recovering<Outcome<S, Req>>>>,
    }

    impl<S, C, Req> PinnedDrop for RetryFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let Some(context) = this.context else { return };
            let in_flight = match this.state.project() {
                StateProj::Flight { .. } => true,
                StateProj::Asking { .. } | StateProj::Waiting | StateProj::Yielding
                | StateProj::Readying => false,
                StateProj::Passing { .. } | StateProj::Expired | StateProj::Done => return,
            };
            let env = this.config.env(context, false);
            let stopped = env.why_dropped(clock::now());
            if in_flight {
                env.cancelled(Some(stopped));
            }
            match this.recovering {
                Some(recovering) => recovering.machine.dropped(stopped, &env),
                None => env.ended(stopped),
            }
        }
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        // Not ours: another recovery layer acts, or has to.
        Passing { #[pin] future: F },
        Flight { #[pin] future: F },
        Asking { deferred: Deferred },
        Waiting,
        // A zero delay touches no timer, but lets other tasks run once.
        Yielding,
        Readying,
        // Nothing more is sent; the deadline above ends the call.
        Expired,
        Done,
    }
}

/// What a call needs once an attempt has failed.
struct Recovering<O> {
    machine: RetryMachine,
    /// The failure that a gate still ahead may return.
    kept: Option<O>,
    /// The failure that a deferred decision is about.
    asked: Option<O>,
    kind: AttemptKind,
    verdict: Verdict,
    sleep: Option<Pin<Box<Sleep>>>,
    waiter: Option<ConfigWaiter>,
}

impl<O> Recovering<O> {
    fn new(verdict: Verdict) -> Box<Self> {
        Box::new(Self {
            machine: RetryMachine::new(),
            kept: None,
            asked: None,
            kind: AttemptKind::Retry,
            verdict,
            sleep: None,
            waiter: None,
        })
    }
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
{
    pub(super) const fn passing(
        future: S::Future,
        context: Option<CallContext>,
        config: Arc<Config<C>>,
    ) -> Self {
        let state = State::Passing { future };
        Self {
            state,
            context,
            config,
            template: None,
            service: None,
            recovering: None,
        }
    }

    pub(super) const fn acting(
        future: S::Future,
        context: CallContext,
        template: Option<Req>,
        service: Option<S>,
        config: Arc<Config<C>>,
    ) -> Self {
        let state = State::Flight { future };
        Self {
            state,
            context: Some(context),
            config,
            template,
            service,
            recovering: None,
        }
    }
}

impl<S, C, Req> fmt::Debug for RetryFuture<S, C, Req>
where
    S: Service<Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// Where the loop goes next.
enum Step<O> {
    Again,
    Return(O),
    Pending,
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// An attempt is over: classify it, and let the machine decide.
    fn settle(mut self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Step<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let Some(context) = this.context.as_ref() else {
            return Step::Return(outcome);
        };
        let verdict = this.config.classifier.classify(outcome.as_ref(), context);
        let committed = verdict == Verdict::Committed;
        let Some(failure) = verdict.failure() else {
            this.state.set(State::Done);
            this.config.env(context, false).succeeded(committed);
            return Step::Return(outcome);
        };
        // Dropped before any delay: it may hold a connection.
        this.state.set(State::Done);
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: AttemptKind::Retry,
            after: Some(failure),
        };
        let replayable =
            this.service.is_some() && this.template.as_ref().is_some_and(|t| t.can_replay(&next));
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
        decision: Result<Option<Duration>, StrategyError>,
    ) -> Step<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        this.state.set(State::Done);
        let (Some(context), Some(recovering)) = (this.context.as_ref(), this.recovering.as_mut())
        else {
            return Step::Pending;
        };
        let Some(outcome) = recovering.asked.take() else {
            return Step::Pending;
        };
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: AttemptKind::Retry,
            after: recovering.verdict.failure(),
        };
        let replayable =
            this.service.is_some() && this.template.as_ref().is_some_and(|t| t.can_replay(&next));
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
        let mut this = self.as_mut().project();
        let (Some(context), Some(recovering)) = (this.context.as_ref(), this.recovering.as_mut())
        else {
            return Step::Return(outcome);
        };
        match action {
            Action::Return(surface) => {
                this.state.set(State::Done);
                let held = recovering.kept.take().filter(|_| surface == Surface::Held);
                Step::Return(held.unwrap_or(outcome))
            }
            Action::Ask(deferred) => {
                this.state.set(State::Asking { deferred });
                recovering.asked = Some(outcome);
                Step::Again
            }
            Action::Expire => {
                self.expire();
                Step::Pending
            }
            Action::Wait(wait) => {
                recovering.wait(&wait, outcome, context);
                this.state.set(if wait.until.is_some() {
                    State::Waiting
                } else {
                    State::Yielding
                });
                Step::Again
            }
        }
    }

    /// Nothing more will be sent: let go of everything and leave the rest to the deadline.
    fn expire(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.state.set(State::Expired);
        *this.recovering = None;
        *this.template = None;
        *this.service = None;
    }

    /// The service broke while it was to get ready again. The server's own failure beats it.
    fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let mut this = self.project();
        this.state.set(State::Done);
        let (Some(context), Some(recovering)) = (this.context.as_ref(), this.recovering.as_mut())
        else {
            return Err(error);
        };
        recovering.machine.broken(&this.config.env(context, false));
        recovering.kept.take().unwrap_or(Err(error))
    }

    /// The service is ready: send the next attempt, unless the time is up.
    fn send(mut self: Pin<&mut Self>) -> Step<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let (Some(context), Some(recovering), Some(service)) = (
            this.context.as_mut(),
            this.recovering.as_mut(),
            this.service.as_mut(),
        ) else {
            return Step::Pending;
        };
        let resume = recovering
            .machine
            .resume(clock::now(), &this.config.env(context, true));
        if resume != Resume::Send {
            if let (Resume::Return, Some(kept)) = (resume, recovering.kept.take()) {
                this.state.set(State::Done);
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
            this.template
                .as_ref()
                .and_then(|template| template.replay(&next))
        } else {
            this.template.take()
        };
        let Some(mut request) = copy.or_else(|| {
            // Refused at the last moment. A failure that was kept is the call's; else the
            // request itself goes out as the last attempt.
            if recovering.kept.is_none() {
                this.template.take()
            } else {
                None
            }
        }) else {
            recovering.machine.refused(&this.config.env(context, false));
            this.state.set(State::Done);
            return recovering.kept.take().map_or(Step::Pending, Step::Return);
        };
        context.start_attempt(next.number, next.kind);
        *request.context_mut() = context.clone();
        this.config.observer.attempt_sent(context);
        let future = service.call(request);
        if !holds {
            recovering.kept = None;
        }
        if this.template.is_none() {
            *this.service = None;
        }
        this.state.set(State::Flight { future });
        Step::Again
    }

    /// Passing through, but nobody below claimed the call: count it all the same (A6: every RPC counts).
    fn passed(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let mut this = self.project();
        this.state.set(State::Done);
        if let Some(context) = this.context.as_mut() {
            if !context.begin().is_claimed() {
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
}

impl<Res, Err> Recovering<Result<Res, Err>> {
    fn wait(&mut self, wait: &Wait, outcome: Result<Res, Err>, context: &CallContext) {
        self.kind = wait.kind;
        match wait.keep {
            Keep::New => self.kept = Some(outcome),
            Keep::Held => {}
            Keep::Error => self.kept = outcome.is_err().then_some(outcome),
        }
        self.waiter = if wait.nudge {
            context.take_config_waiter()
        } else {
            None
        };
        if let Some(until) = wait.until {
            self.sleep_until(until);
        }
    }

    fn sleep_until(&mut self, until: Instant) {
        let until = tokio::time::Instant::from_std(until);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(until),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(until))),
        }
    }

    /// Ready when the delay is over (false), or a newer configuration moved what the call is about (true).
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Some(waiter) = &mut self.waiter {
            if let Poll::Ready(moved) = waiter.as_mut().poll(cx) {
                self.waiter = None;
                if moved {
                    return Poll::Ready(true);
                }
            }
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx).map(|()| false),
            None => Poll::Ready(false),
        }
    }
}

impl<S, C, Req> Future for RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Output = Outcome<S, Req>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = self.as_mut().project();
            let step = match this.state.project() {
                StateProj::Flight { future } => {
                    let outcome = ready!(future.poll(cx));
                    self.as_mut().settle(outcome)
                }
                StateProj::Passing { future } => {
                    let outcome = ready!(future.poll(cx));
                    Step::Return(self.as_mut().passed(outcome))
                }
                StateProj::Asking { deferred } => {
                    let decision = ready!(deferred.as_mut().poll(cx));
                    self.as_mut().decided(decision)
                }
                StateProj::Waiting => match this.recovering {
                    Some(recovering) => {
                        let moved = ready!(recovering.poll_wait(cx));
                        // No delay is left, so that other tasks run once, as after a zero delay: a
                        // configuration that is always newer must not hold up the deadline.
                        self.as_mut().project().state.set(if moved {
                            State::Yielding
                        } else {
                            State::Readying
                        });
                        Step::Again
                    }
                    None => Step::Pending,
                },
                StateProj::Yielding => {
                    cx.waker().wake_by_ref();
                    self.as_mut().project().state.set(State::Readying);
                    Step::Pending
                }
                StateProj::Readying => match this.service.as_mut().map(|s| s.poll_ready(cx)) {
                    Some(Poll::Pending) => Step::Pending,
                    Some(Poll::Ready(Err(error))) => Step::Return(self.as_mut().broken(error)),
                    Some(Poll::Ready(Ok(()))) => self.as_mut().send(),
                    None => Step::Pending,
                },
                StateProj::Expired | StateProj::Done => Step::Pending,
            };
            match step {
                Step::Again => {}
                Step::Return(outcome) => return Poll::Ready(outcome),
                Step::Pending => return Poll::Pending,
            }
        }
    }
}
