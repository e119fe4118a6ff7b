//! The states of a call that is hedged, and its first attempt while that is alone.

use std::future::Future;
use std::marker::PhantomPinned;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Classify, HasCallContext, HedgePolicy, Replay, Verdict};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::Config;
use super::hedging::{Beside, Hedging, Waiting};
use crate::clock;
use crate::policy::HedgeView;
use crate::poll::{as_poll, polled_after_completion};
use crate::recovery::{Outcome, Source};
use crate::timer;

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
        // As in a retry.
        #[pin]
        pub(super) pinned: PhantomPinned,
    }

    impl<S, C, Req> PinnedDrop for HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        // 4 % of a hedged call that is pending.
        #[inline(always)]
        fn drop(this: Pin<&mut Self>) {
            if !matches!(this.state, State::First { first: None, .. } | State::Expired { .. } | State::Done) {
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
        /// retry.
        First { #[pin] first: Option<F>, policy: Arc<HedgePolicy>, beside: Beside<H> },
        /// The first attempt failed; others are in flight or planned.
        Others { policy: Arc<HedgePolicy>, hedging: Box<H> },
        /// Another recovery layer acts on the call, or none does.
        Passed { #[pin] future: F },
        /// Nothing more is sent: the `Deadline` layer above ends the call. If it polls no more, the
        /// call ends by itself.
        Expired { hedging: Box<H> },
        /// The outcome was returned.
        Done,
    }
}

impl<S, C, Req> Future for HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    type Output = Outcome<S, Req>;

    /// A first attempt that works before a hedge is due takes this function alone.
    // 6 % of the row `hedge-pending`.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let alone = matches!(
            self.state,
            State::First {
                beside: Beside::Nothing | Beside::Waits(_),
                ..
            }
        );
        if !alone {
            return as_poll(self.poll_on(cx));
        }
        let mut this = self.as_mut().project();
        let StateProj::First {
            mut first,
            beside,
            policy,
        } = this.state.as_mut().project()
        else {
            polled_after_completion("HedgeFuture")
        };
        let Some(in_flight) = first.as_mut().as_pin_mut() else {
            polled_after_completion("HedgeFuture")
        };
        let Poll::Ready(outcome) = in_flight.poll(cx) else {
            return as_poll(self.waits(cx));
        };
        let context = this.source.context_mut();
        this.config
            .settings
            .warnings
            .if_attempt_timeout_ignored(context);
        let verdict = this.config.settings.classify(outcome.as_ref(), context);
        if verdict.failure().is_some() {
            return as_poll(self.failed_first(verdict, outcome, cx));
        }
        let committed = verdict == Verdict::Committed;
        let learns = policy.learns_of(context.idempotency()) && !context.is_own_answer();
        if this.config.settings.sees_success {
            this.config.settings.effects(context).succeeded(committed);
        } else {
            context.settle_success(committed);
        }
        let learns = learns && this.source.is_template();
        // Fed once: a panic before this feeds it as dropped.
        if !matches!(beside, Beside::Nothing) {
            waited(policy, beside, learns);
        } else if learns {
            policy.delay().succeeded_at_once();
        }
        // Dropped at once: it may hold a connection.
        first.set(None);
        this.source.release();
        Poll::Ready(outcome)
    }
}

/// The first attempt succeeded before a hedge was due.
#[inline(never)]
fn waited<H>(policy: &HedgePolicy, beside: &mut Beside<H>, learns: bool) {
    if let Beside::Waits(waiting) = std::mem::replace(beside, Beside::Nothing) {
        if learns {
            let now = clock::now();
            let took = now.saturating_duration_since(waiting.began);
            policy.delay().first_succeeded(took, now);
        }
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// The first attempt is pending. For the first time: its delay runs from here.
    #[inline(never)]
    fn waits(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        let owner = timer::address(&*self);
        let mut this = self.as_mut().project();
        let StateProj::First { policy, beside, .. } = this.state.as_mut().project() else {
            return self.poll_on(cx);
        };
        if matches!(beside, Beside::Nothing) {
            let context = this.source.context_mut();
            let now = clock::now();
            let view = HedgeView::new(now).of(context);
            let idempotency = context.idempotency();
            let delay = policy.first_delay(idempotency, &view);
            if crate::observe::log::is_on() {
                context.waits_at(|| now);
            }
            if delay == Some(Duration::ZERO) {
                // It arms no timer.
                let mut hedging = Hedging::of(Beside::Nothing, policy, idempotency);
                hedging.driver.machine.pending_since(now, Some(now));
                *beside = Beside::Runs(hedging);
                return self.plan_first(cx);
            }
            let first = delay.map(|delay| clock::after(now, delay));
            *beside = Beside::Waits(Waiting::new(now, first));
        }
        if let Beside::Waits(waiting) = beside {
            if !waiting.poll(owner, cx) {
                return None;
            }
        }
        let begun = std::mem::replace(beside, Beside::Nothing);
        let idempotency = this.source.context_mut().idempotency();
        *beside = Beside::Runs(Hedging::of(begun, policy, idempotency));
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
            ControlFlow::Continue(()) => self.poll_on(cx),
            ControlFlow::Break(outcome) => Some(outcome),
        }
    }

    /// The first attempt was polled. `None` is pending.
    fn plan_first(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        if let Some(mut call) = self.as_mut().call() {
            // Polls the timer of the next attempt, if one is planned.
            if !call.plan(cx) {
                return None;
            }
        }
        self.poll_on(cx)
    }
}
