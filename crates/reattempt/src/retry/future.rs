use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use reattempt_core::strategy::Deferred;
use reattempt_core::{Annotated, Classify, Replay};
use tower_service::Service;

use super::Config;
use super::phase::{Phase, Step};
use super::recovering::Recovering;
use super::source::Source;
use crate::clock;
use crate::stamping::as_poll;

/// The inner service's own result.
pub(super) type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Retry`](super::Retry). Unboxed; the state for retries is allocated with the
    /// first failure.
    pub struct RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: Annotated,
    {
        // The attempt in flight.
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

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: Annotated,
{
    /// Called on drop before completion.
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
    /// Everything but a first attempt that succeeds.
    #[inline(never)]
    pub(super) fn poll_on(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Option<Outcome<S, Req>> {
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

    /// One step of a call that is past the simple first attempt.
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
                    // No delay is left, so other tasks run once, as after a zero delay: a
                    // configuration that is always newer must not starve the deadline.
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

    /// Passed through, but no layer below claimed the call: it is counted too (A6: every RPC
    /// counts).
    fn passed(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let mut this = self.project();
        this.flight.set(None);
        let phase = std::mem::replace(this.phase, Phase::Done);
        if let (Phase::Passing, Source::Last(context)) = (phase, this.source) {
            if !context.is_taken_up() {
                this.config.no_hedge_layer.warn(
                    "RetryLayer",
                    "got a policy that hedges, but there is no HedgeLayer below or above it",
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

fn poll_asked<O>(
    recovering: &mut Option<Box<Recovering<O>>>,
    cx: &mut Context<'_>,
) -> Poll<<Deferred as Future>::Output> {
    match recovering.as_mut().and_then(|r| r.asked.as_mut()) {
        Some((deferred, _)) => deferred.as_mut().poll(cx),
        None => Poll::Pending,
    }
}
