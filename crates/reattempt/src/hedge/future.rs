use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt_core::{Annotated, CallContext, Classify, Replay};
use tower_service::Service;

use super::Config;
use super::first::Start;
use super::hedging::{Hedging, Other};
use crate::clock;
use crate::stamping::as_poll;

/// The inner service's own result.
pub(super) type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    /// The future of [`Hedge`](super::Hedge). The first attempt is inline; the state for further
    /// attempts is allocated when the first one is pending or has failed, and each of them when it
    /// is sent.
    pub struct HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        pub(super) first: Option<S::Future>,
        // The context of the first attempt; `None` if another layer acts.
        pub(super) context: Option<CallContext>,
        // Present until the first poll.
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

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
{
    /// Called on drop, complete or not.
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
    /// Every poll but the first.
    #[inline(never)]
    pub(super) fn poll_on(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Option<Outcome<S, Req>> {
        if self.hedging.is_none() {
            return match self.poll_passing(cx) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            };
        }
        // Terminates: a limited number of hedges, transparent retries and moved keys is due at one
        // instant, and every other attempt waits for its back-off.
        loop {
            if let Some(outcome) = self.as_mut().cancel_cut_off(cx) {
                return Some(outcome);
            }
            if let Some(first) = self.as_mut().project().first.as_pin_mut() {
                if let Poll::Ready(outcome) = first.poll(cx) {
                    if let Some(outcome) = self.as_mut().settle(None, outcome) {
                        return Some(outcome);
                    }
                }
            }
            let mut progress = false;
            let mut at = 0;
            while let Some(hedging) = self.as_mut().project().hedging.as_mut() {
                // A service that will not be called is not waited for.
                let frozen = hedging.machine.is_frozen();
                let Some(other) = hedging.others.get_mut(at) else {
                    break;
                };
                let ended = match other {
                    Other::Flight { future, .. } => match future.as_mut().poll(cx) {
                        Poll::Ready(outcome) => self.as_mut().settle(Some(at), outcome),
                        Poll::Pending => {
                            at += 1;
                            continue;
                        }
                    },
                    Other::Readying { .. } if frozen => self.as_mut().send(at, Ok(())),
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
            progress |= self.hedging.as_ref().is_some_and(|h| h.waits_in_vain());
            if !progress {
                return None;
            }
        }
    }

    /// Another layer acts, or has to. If none did, the call is counted too (A6: every RPC counts).
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
