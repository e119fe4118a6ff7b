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
use crate::stamping::as_poll;

/// One round sends what is ready and plans what is due; all hedges of a call need two each.
const ROUNDS_A_POLL: u32 = 64;

type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Hedge`](super::Hedge). The first attempt is inline; what more attempts take is allocated when the
    /// first one is pending or has failed, and each of them when it is sent.
    pub struct HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        pub(super) first: Option<S::Future>,
        // The context of the first attempt; `None` where another layer acts.
        pub(super) context: Option<CallContext>,
        // Until the first poll.
        pub(super) start: Option<Start<S, Req>>,
        pub(super) config: Arc<Config<C>>,
        pub(super) hedging: Option<Box<Hedging<S, Req>>>,
    }

    impl<S, C, Req> PinnedDrop for HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        #[inline(always)]
        fn drop(this: Pin<&mut Self>) {
            if this.start.is_some() || this.hedging.is_some() {
                this.abandoned();
            }
        }
    }
}

/// What acting on a call takes.
pub(super) struct Start<S, Req> {
    pub(super) policy: Arc<HedgePolicy>,
    pub(super) source: Option<(Req, S)>,
}

/// What it takes once one attempt may not be all.
pub(super) struct Hedging<S: Service<Req>, Req> {
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

impl<S: Service<Req>, Req: Replay> Hedging<S, Req> {
    /// An attempt is over, and what is kept for it may go.
    fn lost(&self, context: &CallContext) {
        if let Some((request, _)) = &self.source {
            request.attempt_over(context.attempt());
        }
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
{
    /// Dropped, over or not.
    #[inline(never)]
    fn abandoned(self: Pin<&mut Self>) {
        let this = self.project();
        let Some(context) = this.context else { return };
        let (over, expired) = match this.hedging {
            Some(hedging) => (hedging.over, hedging.expired),
            None => (false, false),
        };
        if over {
            return;
        }
        let env = this.config.env(context, false);
        let stopped = env.why_dropped(clock::now());
        if this.first.is_some() {
            env.cancelled(Some(stopped));
        }
        for context in this.hedging.iter().flat_map(|hedging| hedging.contexts()) {
            this.config.env(context, false).cancelled(Some(stopped));
        }
        if !expired {
            env.ended(stopped);
        }
    }

    /// The first attempt is not all there is to it.
    fn hedge(self: Pin<&mut Self>) {
        let this = self.project();
        if let Some(Start { policy, source }) = this.start.take() {
            *this.hedging = Some(Box::new(Hedging {
                machine: HedgeMachine::new(&policy),
                policy,
                source,
                others: Vec::new(),
                last: None,
                sleep: None,
                armed: false,
                over: false,
                expired: false,
            }));
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
        mut self: Pin<&mut Self>,
        at: Option<usize>,
        outcome: Outcome<S, Req>,
    ) -> Option<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
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
        if context.has_policy() {
            let warning = &this.config.no_attempt_deadline;
            warning.warn_if_attempts_unlimited("HedgeLayer", &context);
        }
        let verdict = this.config.classifier.classify(outcome.as_ref(), &context);
        self.settled(&context, verdict, outcome)
    }

    /// An attempt is over, and it is known what it came to.
    fn settled(
        mut self: Pin<&mut Self>,
        context: &CallContext,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
    ) -> Option<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let Some(hedging) = this.hedging.as_mut() else {
            return Some(outcome);
        };
        let done = match verdict.failure() {
            None => {
                let committed = verdict == Verdict::Committed;
                // Before the winner is told of: the end of the call is the last thing that is said of it.
                self.as_mut().drop_losers();
                self.project()
                    .config
                    .env(context, false)
                    .succeeded(committed);
                return Some(outcome);
            }
            Some(failure) => {
                // What follows a failure is the machine's word; a first attempt that failed before it was ever
                // pending must not have its delay planned on top.
                hedging.armed = true;
                hedging.lost(context);
                let next = NextAttempt {
                    number: context.attempt() + 1,
                    kind: AttemptKind::Hedge,
                    after: Some(failure),
                };
                let replayable = hedging
                    .source
                    .as_ref()
                    .is_some_and(|(request, _)| request.can_replay(&next));
                let env = this.config.env(context, replayable);
                let found = context.findings();
                let action =
                    hedging
                        .machine
                        .failed(clock::now(), &verdict, found, &hedging.policy, &env);
                match action {
                    HedgeAction::Return => true,
                    HedgeAction::Go => false,
                    HedgeAction::Expire => {
                        hedging.expire();
                        return None;
                    }
                }
            }
        };
        if !done {
            hedging.last = Some(outcome);
            return None;
        }
        self.drop_losers();
        Some(outcome)
    }

    /// Losers are dropped at once, and the caller does not wait for them. Nothing more is sent.
    fn drop_losers(self: Pin<&mut Self>) {
        let mut this = self.project();
        let (Some(first), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return;
        };
        let env = |context| this.config.env(context, false);
        if this.first.is_some() {
            this.first.set(None);
            hedging.lost(first);
            env(first).cancelled(None);
        }
        for context in hedging.contexts() {
            hedging.lost(context);
            env(context).cancelled(None);
        }
        hedging.others.clear();
        hedging.end();
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
        let env = this.config.env(context, copy.is_some());
        let permit = match (&ready, &copy) {
            (Ok(()), Some(_)) => hedging.machine.permit(clock::now(), kind, &env),
            (Ok(()), None) => hedging.machine.refused(&env),
            (Err(_), _) => hedging.machine.broken(&env),
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
                hedging.expire();
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

    /// The deadline ends the call: nothing is held until then.
    fn expire(&mut self) {
        self.expired = true;
        self.source = None;
        self.last = None;
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
        clock::poll_sleep(sleep.as_mut(), cx).is_ready()
    }
}

impl<S, C, Req> Future for HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Output = Outcome<S, Req>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.start.is_some() {
            self.poll_first(cx)
        } else {
            as_poll(self.poll_on(cx))
        }
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// The first poll. Where the first attempt works at once the call ends here.
    #[inline(always)]
    fn poll_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let (Some(first), Some(context)) =
            (this.first.as_mut().as_pin_mut(), this.context.as_mut())
        else {
            return Poll::Pending;
        };
        let Poll::Ready(outcome) = first.poll(cx) else {
            return as_poll(self.pending_first(cx));
        };
        if context.has_policy() {
            let warning = &this.config.no_attempt_deadline;
            warning.warn_if_attempts_unlimited("HedgeLayer", context);
        }
        let verdict = this.config.classifier.classify(outcome.as_ref(), context);
        // Dropped at once: it may hold a connection.
        this.first.set(None);
        if verdict.failure().is_some() {
            return as_poll(self.failed_first(verdict, outcome, cx));
        }
        let committed = verdict == Verdict::Committed;
        if this.config.hears {
            this.config.env(context, false).succeeded(committed);
        } else {
            context.settle_success(committed);
        }
        context.retire();
        *this.start = None;
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
        self.as_mut().hedge();
        let context = self.context.clone()?;
        match self.as_mut().settled(&context, verdict, outcome) {
            None => self.plan_first(cx),
            ended => ended,
        }
    }

    #[inline(never)]
    fn pending_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        self.as_mut().hedge();
        self.plan_first(cx)
    }

    fn plan_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        let expired = self.hedging.as_ref().is_some_and(|hedging| hedging.expired);
        if expired || !self.as_mut().plan(cx) {
            return None;
        }
        self.poll_on(cx)
    }

    /// Anything but the first poll.
    #[inline(never)]
    fn poll_on(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        if self.hedging.is_none() {
            return match self.poll_passing(cx) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            };
        }
        for _ in 0..ROUNDS_A_POLL {
            if let Some(first) = self.as_mut().project().first.as_pin_mut() {
                if let Poll::Ready(outcome) = first.poll(cx) {
                    if let Some(outcome) = self.as_mut().settle(None, outcome) {
                        return Some(outcome);
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
                    return Some(outcome);
                }
            }
            if self.hedging.as_ref().is_some_and(|hedging| hedging.expired) {
                return None;
            }
            progress |= self.as_mut().plan(cx);
            if !progress {
                return None;
            }
        }
        // Attempts fail as fast as they are sent: let others run, the deadline above among them.
        cx.waker().wake_by_ref();
        None
    }

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
            if !context.is_taken_up() {
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
