//! The first attempt: if it succeeds at once, nothing else is needed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use reattempt_core::{Annotated, CallContext, Classify, HedgePolicy, Idempotency, Replay, Verdict};
use tower_service::Service;

use super::future::{HedgeFuture, Outcome};
use super::hedging::Hedging;
use crate::stamping::as_poll;

/// What the layer needs to act on a call.
pub(super) struct Start<S, Req> {
    pub(super) policy: Arc<HedgePolicy>,
    pub(super) source: Option<(Req, S)>,
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// The first poll. If the first attempt succeeds at once, the call ends here.
    #[inline(always)]
    pub(super) fn poll_first(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<S, Req>> {
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

    // An `Option`, so that the cold path does not share memory with the outcome of the hot path,
    // which then stays in registers.
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

    /// More than the first attempt is needed.
    fn hedge(self: Pin<&mut Self>) {
        let this = self.project();
        if let Some(start) = this.start.take() {
            let context = this.context.as_ref();
            let idempotency = context.map_or(Idempotency::Unknown, CallContext::idempotency);
            *this.hedging = Some(Box::new(Hedging::new(start, idempotency)));
        }
    }
}
