//! The states of a call that is retried, and the loop that drives them.

use std::future::Future;
use std::marker::PhantomPinned;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::{Classify, HasCallContext, Replay, Verdict};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::attempt::Between;
use super::kept::Kept;
use super::{Config, Failing, First, Next};
use crate::poll::{as_poll, polled_after_completion};
use crate::recovery::{Outcome, Source};
use crate::timer;

pin_project! {
    /// The future of [`Retry`](super::Retry). Unboxed; what only a failing call needs is allocated
    /// with its first failure.
    ///
    /// # Panics
    ///
    /// When it is polled after it returned the call's outcome.
    pub struct RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        #[pin]
        pub(super) state: State<S::Future, Outcome<S, Req>>,
        pub(super) source: Source<S, Req>,
        pub(super) config: Arc<Config<C>>,
        // A `Deadline` above relies on timers below that cannot move (`timer.rs`).
        #[pin]
        pub(super) pinned: PhantomPinned,
    }

    impl<S, C, Req> PinnedDrop for RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        // 22 % of the row `retry`.
        #[inline(always)]
        fn drop(this: Pin<&mut Self>) {
            if !matches!(this.state, State::InFlight { future: None, .. } | State::Done) {
                this.abandoned();
            }
        }
    }
}

pin_project! {
    /// Where a call stands. Each state owns what only it needs.
    #[project = StateProj]
    #[project_replace = StateOwned]
    pub(super) enum State<F, O> {
        /// The inner service has the request. The future is gone once a first attempt succeeded:
        /// to replace the state as well would cost such a call a tenth of its instructions.
        InFlight { #[pin] future: Option<F>, sent: Sent<O> },
        /// An attempt failed: it is settled, and another one follows, or the deadline.
        Between { failing: Box<Failing>, kept: Option<Kept<O>> },
        /// The outcome was returned.
        Done,
    }
}

/// What was sent, and what its end means.
pub(super) enum Sent<O> {
    /// A first attempt: its success ends the call and leaves no record.
    First,
    /// A first attempt whose policy limits each attempt, which a layer below has to do.
    Limited,
    /// An attempt after failures.
    Again(Box<Failing>),
    /// The same, and the strategy holds one of the failures.
    Holding(Box<(Box<Failing>, O)>),
    /// A call on which another recovery layer acts, or none.
    Passed,
}

impl<O> Sent<O> {
    #[inline]
    pub(super) const fn first(first: First) -> Self {
        match first {
            First::Sent { limited: false, .. } => Self::First,
            First::Sent { limited: true, .. } => Self::Limited,
            First::Claimed | First::Left => Self::Passed,
        }
    }

    /// What earlier attempts left, and the failure that the strategy holds.
    fn failures(self) -> (Box<Failing>, Option<O>) {
        match self {
            Self::First | Self::Limited | Self::Passed => (Failing::take(), None),
            Self::Again(failing) => (failing, None),
            Self::Holding(both) => (both.0, Some(both.1)),
        }
    }
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// The inner service has the request.
    #[inline]
    pub(super) fn in_flight(
        future: S::Future,
        sent: Sent<Outcome<S, Req>>,
        source: Source<S, Req>,
        config: Arc<Config<C>>,
    ) -> Self {
        let future = Some(future);
        Self {
            state: State::InFlight { future, sent },
            source,
            config,
            pinned: PhantomPinned,
        }
    }
}

impl<S, C, Req> Future for RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    type Output = Outcome<S, Req>;

    /// A first attempt that works takes this function alone.
    // 24 % of the row `retry`.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !matches!(
            self.state,
            State::InFlight {
                sent: Sent::First,
                ..
            }
        ) {
            return as_poll(self.poll_on(cx));
        }
        let mut this = self.as_mut().project();
        let StateProj::InFlight { mut future, .. } = this.state.as_mut().project() else {
            polled_after_completion("RetryFuture")
        };
        let Some(in_flight) = future.as_mut().as_pin_mut() else {
            polled_after_completion("RetryFuture")
        };
        let polled = in_flight.poll(cx);
        let Poll::Ready(outcome) = &polled else {
            self.waits();
            return Poll::Pending;
        };
        let context = this.source.context_mut();
        let settings = &this.config.settings;
        let verdict = settings.classify(outcome.as_ref(), context);
        if verdict.failure().is_some() {
            let outcome = ready!(polled);
            return as_poll(self.failed_first(verdict, outcome, cx));
        }
        let committed = verdict == Verdict::Committed;
        if this.config.settings.sees_success {
            self.first_succeeded(committed);
        } else {
            context.settle_success(committed);
            // Dropped at once: it may hold a connection.
            future.set(None);
            this.source.release();
        }
        polled
    }
}

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
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
        let failing = Failing::take();
        match self.as_mut().failed(verdict, outcome, failing, None) {
            ControlFlow::Continue(()) => self.poll_on(cx),
            ControlFlow::Break(outcome) => Some(self.over(outcome)),
        }
    }

    /// Everything but a first attempt that works. `None` is pending.
    #[inline(never)]
    fn poll_on(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        match self.as_mut().poll_states(cx) {
            Poll::Ready(outcome) => Some(self.over(outcome)),
            Poll::Pending => None,
        }
    }

    /// The call has its outcome.
    fn over(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let this = self.project();
        match this.state.project_replace(State::Done) {
            StateOwned::Between { failing, .. } => Failing::give_back(failing),
            StateOwned::InFlight { sent, .. } => match sent {
                Sent::Again(failing) => Failing::give_back(failing),
                Sent::Holding(both) => Failing::give_back(both.0),
                Sent::First | Sent::Limited | Sent::Passed => {}
            },
            StateOwned::Done => {}
        }
        this.source.release();
        outcome
    }

    /// An attempt failed: lets the machine decide. `held` is the failure that the strategy holds.
    #[cold]
    #[inline(never)]
    fn failed(
        self: Pin<&mut Self>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
        mut failing: Box<Failing>,
        held: Option<Outcome<S, Req>>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let mut this = self.project();
        // The attempt's future is dropped before any delay, because it may hold a connection. Then
        // user code is asked what follows, and a panic of it ends the call as a drop does.
        failing.next = Next::Settle;
        let kept = None;
        this.state.set(State::Between { failing, kept });
        match this.state.project() {
            StateProj::Between { failing, kept } => Between {
                failing,
                kept,
                source: this.source,
                config: this.config,
            }
            .failed(verdict, outcome, held),
            _ => polled_after_completion("RetryFuture"),
        }
    }

    /// The next attempt is with the inner service.
    fn sent(self: Pin<&mut Self>, future: S::Future) {
        let mut this = self.project();
        if let StateOwned::Between { failing, kept } =
            this.state.as_mut().project_replace(State::Done)
        {
            let sent = match kept {
                Some(Kept::Failure(held)) => Sent::Holding(Box::new((failing, held))),
                Some(Kept::Undecided(_)) | None => Sent::Again(failing),
            };
            let future = Some(future);
            this.state.set(State::InFlight { future, sent });
        }
    }

    fn poll_states(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        let owner = timer::address(&*self);
        loop {
            let mut this = self.as_mut().project();
            let step = match this.state.as_mut().project() {
                StateProj::InFlight { future, sent } => {
                    let Some(in_flight) = future.as_pin_mut() else {
                        polled_after_completion("RetryFuture")
                    };
                    let Poll::Ready(outcome) = in_flight.poll(cx) else {
                        this.source.context_mut().waits();
                        return Poll::Pending;
                    };
                    let settings = &this.config.settings;
                    let context = this.source.context_mut();
                    // The state stays until user code has returned, so that a panic in it ends the
                    // call as a drop does.
                    if matches!(sent, Sent::Passed) {
                        settings.passed(outcome.as_ref(), context);
                        return Poll::Ready(outcome);
                    }
                    if matches!(sent, Sent::Limited) {
                        // The limit is the same for all attempts.
                        settings.warnings.if_attempt_timeout_ignored(context);
                    }
                    let verdict = settings.classify(outcome.as_ref(), context);
                    if verdict.failure().is_none() {
                        let committed = verdict == Verdict::Committed;
                        settings.effects(context).succeeded(committed);
                        return Poll::Ready(outcome);
                    }
                    let (failing, held) = std::mem::replace(sent, Sent::Passed).failures();
                    self.as_mut().failed(verdict, outcome, failing, held)
                }
                StateProj::Between { failing, kept } => {
                    let mut between = Between {
                        failing,
                        kept,
                        source: this.source,
                        config: this.config,
                    };
                    match ready!(between.poll(owner, cx)) {
                        ControlFlow::Continue(future) => {
                            self.as_mut().sent(future);
                            ControlFlow::Continue(())
                        }
                        ControlFlow::Break(outcome) => ControlFlow::Break(outcome),
                    }
                }
                StateProj::Done => polled_after_completion("RetryFuture"),
            };
            if let ControlFlow::Break(outcome) = step {
                return Poll::Ready(outcome);
            }
        }
    }

    /// The attempt is pending. Not inlined: a first attempt that works at once never comes here.
    #[cold]
    #[inline(never)]
    fn waits(self: Pin<&mut Self>) {
        self.project().source.context_mut().waits();
    }
}
