//! The states of a call that is hedged, and the loop that drives them.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use crate::{CallContext, Classify, HasCallContext, HedgePolicy, Replay, Verdict};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::Config;
use super::hedging::{Call, Hedging, Other};
use super::settle::fed;
use crate::clock;
use crate::driver::CallEffects;
use crate::policy::{AttemptEnd, HedgeView};
use crate::poll::{as_poll, polled_after_completion};
use crate::recovery::Source;

/// The inner service's own result.
pub(super) type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Hedge`](super::Hedge). The first attempt is in place; each further one is
    /// boxed.
    ///
    /// # Panics
    ///
    /// When it is polled after it returned the call's outcome.
    pub struct HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        #[pin]
        pub(super) state: State<S::Future, Hedging<S, Req>>,
        pub(super) source: Source<S, Req>,
        pub(super) config: Arc<Config<C>>,
    }

    impl<S, C, Req> PinnedDrop for HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        #[inline(always)]
        fn drop(this: Pin<&mut Self>) {
            if !matches!(this.state, State::First { first: None, .. } | State::Expired | State::Done) {
                this.abandoned();
            }
        }
    }
}

pin_project! {
    /// Where a call stands. Each state owns what only it needs.
    #[project = StateProj]
    #[project_replace = StateOwned]
    pub(super) enum State<F, H> {
        /// The first attempt is in flight. It is gone once it succeeded at its first poll, as in a
        /// retry. `hedging` is there once it was pending.
        First { #[pin] first: Option<F>, policy: Arc<HedgePolicy>, hedging: Option<Box<H>> },
        /// The first attempt failed; others are in flight or planned.
        Others { policy: Arc<HedgePolicy>, hedging: Box<H> },
        /// Another recovery layer acts on the call, or none does.
        Passed { #[pin] future: F },
        /// Nothing more is sent: the deadline above ends the call.
        Expired,
        /// The outcome was returned.
        Done,
    }
}

impl<F, H> State<F, H> {
    const fn name(&self) -> &'static str {
        match self {
            Self::First { .. } => "First",
            Self::Others { .. } => "Others",
            Self::Passed { .. } => "Passed",
            Self::Expired => "Expired",
            Self::Done => "Done",
        }
    }
}

impl<S, C, Req> Future for HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    type Output = Outcome<S, Req>;

    /// A first attempt that works at its first poll takes this function alone.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        let StateProj::First {
            mut first,
            hedging: None,
            policy,
        } = this.state.as_mut().project()
        else {
            return as_poll(self.poll_on(cx));
        };
        let Some(in_flight) = first.as_mut().as_pin_mut() else {
            polled_after_completion("HedgeFuture")
        };
        let Poll::Ready(outcome) = in_flight.poll(cx) else {
            return as_poll(self.pending_first(cx));
        };
        let context = this.source.context_mut();
        this.config.settings.warnings.if_attempts_unlimited(context);
        let verdict = this.config.settings.classify(outcome.as_ref(), context);
        if verdict.failure().is_some() {
            return as_poll(self.failed_first(verdict, outcome, cx));
        }
        // Dropped at once: it may hold a connection.
        first.set(None);
        if policy.learns() {
            policy.delay().succeeded_at_once();
        }
        let committed = verdict == Verdict::Committed;
        if this.config.settings.own_observer.is_some() {
            this.config.settings.effects(context).succeeded(committed);
        } else {
            context.settle_success(committed);
        }
        this.source.release();
        Poll::Ready(outcome)
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// The first attempt was pending for the first time: its delay runs from here.
    #[inline(never)]
    fn pending_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        if let StateProj::First {
            policy, hedging, ..
        } = this.state.as_mut().project()
        {
            let idempotency = this.source.context_mut().idempotency();
            let hedging = hedging.insert(Hedging::new(policy, idempotency));
            let now = clock::now();
            let context = this.source.context_mut();
            let backend = context.backend();
            let route = context.policy().map_or("", |policy| policy.name());
            let view = HedgeView::new(now).on(route, backend.as_ref());
            hedging.driver.machine.pending(view, policy);
            if crate::observe::log::is_on() {
                this.source.context_mut().waits_at(|| now);
            }
        }
        self.plan_first(cx)
    }

    // An `Option`, so that the cold path does not share the memory of the hot path's outcome, which
    // then stays in registers.
    #[cold]
    #[inline(never)]
    fn failed_first(
        mut self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        cx: &mut Context<'_>,
    ) -> Option<Outcome<S, Req>> {
        let (context, sent) = self.as_mut().first_ended();
        match self.as_mut().settled(&context, sent, verdict, outcome) {
            ControlFlow::Continue(()) => self.plan_first(cx),
            ControlFlow::Break(outcome) => Some(outcome),
        }
    }

    fn plan_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        let planned = self.as_mut().call().is_some_and(|mut call| call.plan(cx));
        if planned { self.poll_on(cx) } else { None }
    }

    /// Everything but the first poll. `None` is pending.
    #[inline(never)]
    fn poll_on(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        match self.poll_states(cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// Ends: at one instant a bounded number of hedges, transparent retries and moved keys is sent,
    /// and every other attempt waits for its back-off.
    fn poll_states(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        loop {
            match self.as_mut().project().state.project() {
                StateProj::First { .. } | StateProj::Others { .. } => {}
                StateProj::Passed { future } => {
                    let outcome = ready!(future.poll(cx));
                    return Poll::Ready(self.passed(outcome));
                }
                // The `Deadline` that enforces the limit polls its timer next, in this same poll.
                StateProj::Expired => return Poll::Pending,
                StateProj::Done => polled_after_completion("HedgeFuture"),
            }
            match self.as_mut().poll_attempts(cx) {
                ControlFlow::Break(outcome) => return Poll::Ready(outcome),
                ControlFlow::Continue(readied) => {
                    let Some(mut call) = self.as_mut().call() else {
                        continue;
                    };
                    // Polls the timer of the next attempt, if one is planned.
                    let planned = call.plan(cx);
                    if !(planned || readied || call.hedging.waits_in_vain()) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Polls every attempt once. True when the service of one became ready.
    fn poll_attempts(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> ControlFlow<Outcome<S, Req>, bool> {
        self.as_mut().cancel_cut_off(cx)?;
        if let StateProj::First { first, .. } = self.as_mut().project().state.project() {
            let Some(first) = first.as_pin_mut() else {
                polled_after_completion("HedgeFuture")
            };
            if let Poll::Ready(outcome) = first.poll(cx) {
                let (context, sent) = self.as_mut().first_ended();
                self.as_mut().settle(&context, sent, outcome)?;
            }
        }
        let mut readied = false;
        let mut at = 0;
        while let Some(call) = self.as_mut().call() {
            // No attempt waits for a service that will not be called.
            let frozen = call.hedging.driver.machine.is_frozen();
            let ready = match call.hedging.others.get_mut(at) {
                None => break,
                Some(Other::Flight { future, .. }) => {
                    let Poll::Ready(outcome) = future.as_mut().poll(cx) else {
                        at += 1;
                        continue;
                    };
                    let ended = call.hedging.others.swap_remove(at);
                    if let Other::Flight {
                        context,
                        future,
                        sent,
                    } = ended
                    {
                        // Dropped before its outcome is looked at: it may hold a connection.
                        drop(future);
                        self.as_mut().settle(&context, Some(sent), outcome)?;
                    }
                    continue;
                }
                Some(Other::Readying { .. }) if frozen => Ok(()),
                Some(Other::Readying { service, .. }) => {
                    let Poll::Ready(ready) = service.poll_ready(cx) else {
                        at += 1;
                        continue;
                    };
                    readied = true;
                    ready
                }
            };
            self.as_mut().send(at, ready)?;
        }
        ControlFlow::Continue(readied)
    }

    /// The call passed through. If no layer below claimed it, it is counted here (A6: every RPC
    /// counts).
    fn passed(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let mut this = self.project();
        this.state.set(State::Done);
        let context = this.source.context_mut();
        this.config.settings.passed(outcome.as_ref(), context);
        outcome
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// The call, while attempts may run side by side.
    pub(super) fn call(self: Pin<&mut Self>) -> Option<Call<'_, S, C, Req>> {
        let this = self.project();
        let (policy, hedging, first) = match this.state.project() {
            StateProj::First {
                policy,
                hedging: Some(hedging),
                ..
            } => (policy, hedging, true),
            StateProj::Others { policy, hedging } => (policy, hedging, false),
            _ => return None,
        };
        Some(Call {
            hedging,
            policy,
            first,
            source: this.source,
            config: this.config,
        })
    }

    /// Drops the first attempt, which ended. Returns its context, and when it was sent unless it
    /// ended at once.
    pub(super) fn first_ended(self: Pin<&mut Self>) -> (CallContext, Option<Instant>) {
        let mut this = self.project();
        let context = this.source.context_mut().clone();
        let mut sent = None;
        if let StateOwned::First {
            policy, hedging, ..
        } = this.state.as_mut().project_replace(State::Done)
        {
            let new = || Hedging::new(&policy, context.idempotency());
            let hedging = hedging.unwrap_or_else(new);
            sent = hedging.driver.machine.began();
            this.state.set(State::Others { policy, hedging });
        }
        (context, sent)
    }

    /// Dropped before it had an outcome.
    #[inline(never)]
    fn abandoned(mut self: Pin<&mut Self>) {
        let config = Arc::clone(&self.config);
        self.source.describe(config.settings.service);
        let context = self.as_mut().project().source.context_mut().share();
        let effects = config.settings.effects(&context);
        if matches!(self.state, State::Passed { .. }) {
            return config.settings.passed_and_dropped(&context);
        }
        let stopped = effects.why_dropped(clock::now());
        if let State::First {
            policy, hedging, ..
        } = &self.state
        {
            let sent = hedging.as_ref().and_then(|h| h.driver.machine.began());
            fed(policy, &context, sent, AttemptEnd::Dropped);
            effects.cancelled(Some(stopped));
        }
        if let Some(call) = self.call() {
            for (context, sent) in call.hedging.flights() {
                fed(call.policy, context, Some(sent), AttemptEnd::Dropped);
                config.settings.effects(context).cancelled(Some(stopped));
            }
        }
        effects.ended(stopped);
    }
}

impl<S, C, Req> fmt::Debug for HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture")
            .field("state", &self.state.name())
            .field("context", &self.source.context())
            .finish_non_exhaustive()
    }
}
