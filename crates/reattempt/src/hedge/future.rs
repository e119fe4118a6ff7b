use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use pin_project_lite::pin_project;
use reattempt_core::machine::{Due, HedgeAction, HedgeMachine, Permit};
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, HedgePolicy, NextAttempt, Replay, Verdict,
};
use tokio::time::Sleep;
use tower_service::Service;

use super::Config;
use crate::clock;

/// One round sends what is ready and plans what is due; all hedges of a call need two each.
const ROUNDS_A_POLL: u32 = 64;

type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Hedge`](super::Hedge). The first attempt is inline; a hedge is boxed when it is sent.
    pub struct HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        first: Option<S::Future>,
        // The context of the first attempt; `None` where another layer acts.
        context: Option<CallContext>,
        config: Arc<Config<C>>,
        hedging: Option<Hedging<S, Req>>,
    }

    impl<S, C, Req> PinnedDrop for HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(context), Some(hedging)) = (this.context, this.hedging) {
                if !hedging.over {
                    let env = this.config.env(context, false);
                    let stopped = env.why_dropped(clock::now());
                    let out = this.first.is_some().then_some(&*context);
                    for context in out.into_iter().chain(hedging.contexts()) {
                        this.config.env(context, false).cancelled(Some(stopped));
                    }
                    if !hedging.expired {
                        env.ended(stopped);
                    }
                }
            }
        }
    }
}

/// What acting on a call takes.
struct Hedging<S: Service<Req>, Req> {
    machine: HedgeMachine,
    policy: Arc<HedgePolicy>,
    source: Option<(Req, S)>,
    others: Vec<Other<S, Req>>,
    last: Option<Outcome<S, Req>>,
    sleep: Option<Pin<Box<Sleep>>>,
    armed: bool,
    over: bool,
    expired: bool,
}

/// An attempt beyond the first.
enum Other<S: Service<Req>, Req> {
    Readying {
        service: S,
        kind: AttemptKind,
    },
    Flight {
        future: Pin<Box<S::Future>>,
        context: CallContext,
    },
}

impl<S: Service<Req>, Req> Hedging<S, Req> {
    fn contexts(&self) -> impl Iterator<Item = &CallContext> {
        self.others.iter().filter_map(|other| match other {
            Other::Flight { context, .. } => Some(context),
            Other::Readying { .. } => None,
        })
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
{
    pub(super) const fn passing(
        future: S::Future,
        context: Option<CallContext>,
        config: Arc<Config<C>>,
    ) -> Self {
        Self {
            first: Some(future),
            context,
            config,
            hedging: None,
        }
    }

    pub(super) const fn acting(
        future: S::Future,
        context: CallContext,
        machine: HedgeMachine,
        policy: Arc<HedgePolicy>,
        source: Option<(Req, S)>,
        config: Arc<Config<C>>,
    ) -> Self {
        let hedging = Hedging {
            machine,
            policy,
            source,
            others: Vec::new(),
            last: None,
            sleep: None,
            armed: false,
            over: false,
            expired: false,
        };
        Self {
            first: Some(future),
            context: Some(context),
            config,
            hedging: Some(hedging),
        }
    }
}

impl<S, C, Req> fmt::Debug for HedgeFuture<S, C, Req>
where
    S: Service<Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// An attempt is over: `at` is its place among the others, `None` the first. The outcome, if the call is over with it.
    fn settle(
        self: Pin<&mut Self>,
        at: Option<usize>,
        outcome: Outcome<S, Req>,
    ) -> Option<Outcome<S, Req>> {
        let mut this = self.project();
        let (Some(first), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return Some(outcome);
        };
        // Dropped at once: it may hold a connection.
        let context = match at {
            None => {
                this.first.set(None);
                first.clone()
            }
            Some(at) => match hedging.others.swap_remove(at) {
                Other::Flight { context, .. } => context,
                Other::Readying { .. } => return None,
            },
        };
        let verdict = this.config.classifier.classify(outcome.as_ref(), &context);
        let done = match verdict.failure() {
            None => {
                let committed = verdict == Verdict::Committed;
                hedging.end();
                this.config.env(&context, false).succeeded(committed);
                true
            }
            Some(failure) => {
                // What follows a failure is the machine's word; a first attempt that failed before it was ever
                // pending must not have its delay planned on top.
                hedging.armed = true;
                let next = NextAttempt {
                    number: context.attempt() + 1,
                    kind: AttemptKind::Hedge,
                    after: Some(failure),
                };
                let replayable = hedging
                    .source
                    .as_ref()
                    .is_some_and(|(request, _)| request.can_replay(&next));
                let env = this.config.env(&context, replayable);
                let found = context.findings();
                let action =
                    hedging
                        .machine
                        .failed(clock::now(), &verdict, found, &hedging.policy, &env);
                match action {
                    HedgeAction::Return => {
                        hedging.end();
                        true
                    }
                    HedgeAction::Go => false,
                    HedgeAction::Expire => {
                        hedging.expired = true;
                        hedging.source = None;
                        return None;
                    }
                }
            }
        };
        if !done {
            hedging.last = Some(outcome);
            return None;
        }
        // Losers are dropped at once, and the caller does not wait for them.
        if this.first.is_some() {
            this.first.set(None);
            this.config.env(first, false).cancelled(None);
        }
        for context in hedging.contexts() {
            this.config.env(context, false).cancelled(None);
        }
        hedging.others.clear();
        Some(outcome)
    }

    /// Plans what is due, and keeps a timer for what is not. True if something was planned.
    fn plan(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let this = self.project();
        let Some(hedging) = this.hedging.as_mut() else {
            return false;
        };
        if !hedging.armed {
            hedging.armed = true;
            if hedging.source.is_some() {
                hedging.machine.pending(clock::now(), &hedging.policy);
            }
        }
        let mut planned = false;
        while let Some(at) = hedging.machine.wake() {
            let now = clock::now();
            if at > now && !hedging.poll_sleep(at, cx) {
                break;
            }
            match (
                hedging.machine.due(now.max(at), &hedging.policy),
                &hedging.source,
            ) {
                (Due::Plan(kind), Some((_, service))) => {
                    hedging.others.push(Other::Readying {
                        service: service.clone(),
                        kind,
                    });
                    planned = true;
                }
                _ => break,
            }
        }
        planned
    }

    /// A planned attempt's service is ready (or broke): send it, if the machine permits.
    fn send(
        self: Pin<&mut Self>,
        at: usize,
        ready: Result<(), S::Error>,
    ) -> Option<Outcome<S, Req>> {
        let this = self.project();
        let (Some(context), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return None;
        };
        let Other::Readying { mut service, kind } = hedging.others.swap_remove(at) else {
            return None;
        };
        let number = hedging.machine.next_number();
        let next = NextAttempt {
            number,
            kind,
            after: None,
        };
        let copy = match (&ready, &hedging.source) {
            (Ok(()), Some((request, _))) if request.can_replay(&next) => request.replay(&next),
            _ => None,
        };
        let permit = match &copy {
            Some(_) => {
                let env = this.config.env(context, true);
                hedging.machine.permit(clock::now(), kind, &env)
            }
            None => hedging.machine.broken(&this.config.env(context, false)),
        };
        match (permit, copy) {
            (Permit::Send(number), Some(mut request)) => {
                let mut context = context.clone();
                context.start_attempt(number, kind);
                *request.context_mut() = context.clone();
                this.config.observer.attempt_sent(&context);
                let future = Box::pin(service.call(request));
                hedging.others.push(Other::Flight { future, context });
                None
            }
            (Permit::Expire, _) => {
                hedging.expired = true;
                hedging.source = None;
                None
            }
            (Permit::Return, _) => {
                hedging.end();
                hedging.last.take().or_else(|| ready.err().map(Err))
            }
            _ => None,
        }
    }
}

impl<S: Service<Req>, Req> Hedging<S, Req> {
    /// Nothing more is sent or recorded.
    fn end(&mut self) {
        self.over = true;
        self.source = None;
    }

    /// True when the instant has come.
    fn poll_sleep(&mut self, at: Instant, cx: &mut Context<'_>) -> bool {
        let at = tokio::time::Instant::from_std(at);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx).is_ready()
    }
}

impl<S, C, Req> Future for HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Output = Outcome<S, Req>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.hedging.is_none() {
            return self.poll_passing(cx);
        }
        for _ in 0..ROUNDS_A_POLL {
            if let Some(first) = self.as_mut().project().first.as_pin_mut() {
                if let Poll::Ready(outcome) = first.poll(cx) {
                    if let Some(outcome) = self.as_mut().settle(None, outcome) {
                        return Poll::Ready(outcome);
                    }
                }
            }
            let mut progress = false;
            let mut at = 0;
            while let Some(other) = self
                .as_mut()
                .project()
                .hedging
                .as_mut()
                .and_then(|h| h.others.get_mut(at))
            {
                let ended = match other {
                    Other::Flight { future, .. } => match future.as_mut().poll(cx) {
                        Poll::Ready(outcome) => self.as_mut().settle(Some(at), outcome),
                        Poll::Pending => {
                            at += 1;
                            continue;
                        }
                    },
                    Other::Readying { service, .. } => match service.poll_ready(cx) {
                        Poll::Ready(ready) => {
                            progress = true;
                            self.as_mut().send(at, ready)
                        }
                        Poll::Pending => {
                            at += 1;
                            continue;
                        }
                    },
                };
                if let Some(outcome) = ended {
                    return Poll::Ready(outcome);
                }
            }
            if self.hedging.as_ref().is_some_and(|hedging| hedging.expired) {
                return Poll::Pending;
            }
            progress |= self.as_mut().plan(cx);
            if !progress {
                return Poll::Pending;
            }
        }
        // Attempts fail as fast as they are sent: let others run, the deadline above among them.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// Another layer acts, or has to. If none did, the call is counted all the same (A6: every RPC counts).
    fn poll_passing(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let Some(first) = this.first.as_pin_mut() else {
            return Poll::Pending;
        };
        let outcome = ready!(first.poll(cx));
        let mut this = self.project();
        this.first.set(None);
        if let Some(context) = this.context.as_mut() {
            if !context.begin().is_claimed() {
                this.config.no_retry_layer.warn_if_retry(context);
                let verdict = this.config.classifier.classify(outcome.as_ref(), context);
                let found = context.findings();
                this.config
                    .env(context, false)
                    .passed(clock::now(), &verdict, found);
            }
        }
        Poll::Ready(outcome)
    }
}
