//! The first attempt: if it succeeds and no observer wants its events, nothing else is needed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use reattempt_core::{Annotated, Classify, Replay, Verdict};
use tower_service::Service;

use super::future::{Outcome, RetryFuture};
use super::phase::{Phase, Step};
use super::source::Source;
use crate::stamping::as_poll;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// Polls a first attempt. If it succeeds and no observer wants its events, the call ends here.
    #[inline(always)]
    pub(super) fn poll_first(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<S, Req>> {
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
        match self.as_mut().failed(verdict, outcome) {
            Step::Again => self.poll_on(cx),
            Step::Return(outcome) => {
                self.project().source.release();
                Some(outcome)
            }
            Step::Pending => None,
        }
    }
}
