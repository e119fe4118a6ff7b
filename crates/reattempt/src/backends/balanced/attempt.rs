//! One attempt at a backend, from the choice to what its end teaches.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_service::Service;

use super::Judge;
use super::list::List;
use crate::backends::RoundRobinFuture;
use crate::call::AtEnd;
use crate::clock;
use crate::health::{Outcome, Pool, Sent};
use crate::{CallContext, Classify, HasCallContext, ReadPushback, ServerPushback, Verdict};

/// An attempt in flight. Dropped without an outcome, it took at least as long as it lasted.
struct Flight {
    pool: Arc<Pool>,
    sent: Option<Sent>,
    /// Until the attempt has its outcome.
    context: Option<CallContext>,
}

/// The response has begun: its backend learns from the end.
fn begun(pool: &Pool, sent: &mut Option<Sent>, context: &CallContext, hold: Option<Duration>) {
    let open = sent
        .take()
        .and_then(|sent| pool.begun(sent, clock::now(), hold));
    if let Some(open) = open {
        context.at_end(AtEnd::Health(open));
    }
}

// Always: 7 % of a call, together with the pool's own.
#[inline(always)]
fn ended(pool: &Pool, sent: &mut Option<Sent>, outcome: Outcome, hold: Option<Duration>) {
    if let Some(sent) = sent.take() {
        pool.ended(sent, clock::now(), outcome, hold);
    }
}

impl Flight {
    #[cold]
    fn dropped(&mut self) {
        let context = self.context.as_ref();
        let outcome = context.map_or(Outcome::Dropped, CallContext::dropped);
        ended(&self.pool, &mut self.sent, outcome, None);
    }
}

impl Drop for Flight {
    #[inline]
    fn drop(&mut self) {
        if self.sent.is_some() {
            self.dropped();
        }
    }
}

pin_project! {
    pub(super) struct Attempt<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        inner: RoundRobinFuture<S, Req>,
        flight: Flight,
    }
}

impl<S, Req> Attempt<S, Req>
where
    S: Service<Req> + Clone,
    Req: HasCallContext,
{
    /// Sends the request to the backend that was chosen for it.
    // 5 % of the row `backends`.
    #[inline(always)]
    pub(super) fn send(list: &List<S>, sent: Sent, request: Req) -> Self {
        let (at, untried) = (sent.at(), sent.untried());
        // From here on it ends also by a panic, of a service's `clone` for example.
        let mut flight = Flight {
            pool: Arc::clone(list.pool()),
            sent: Some(sent),
            context: None,
        };
        let context = request.context();
        if let Some(context) = context {
            context.sent_to(list.name(at), untried);
        }
        flight.context = context.map(CallContext::share);
        Self {
            inner: RoundRobinFuture::new(list.service(at), request),
            flight,
        }
    }
}

impl<S: Service<Req>, Req> Attempt<S, Req> {
    pub(super) fn poll<C, P>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        judge: &Judge<C, P>,
    ) -> Poll<Result<S::Response, S::Error>>
    where
        C: Classify<S::Response, S::Error>,
        P: ReadPushback<S::Response, S::Error>,
    {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let Flight {
            pool,
            sent,
            context: kept,
        } = this.flight;
        let context = kept.get_or_insert_default();
        let verdict = judge.classifier.classify(outcome.as_ref(), context);
        let report = context.report();
        let read = || judge.pushback.read(outcome.as_ref(), context).valid();
        let reported = report.pushback.and_then(ServerPushback::delay);
        let hold = reported.or_else(|| read()?.delay());
        if report.own_answer && context.is_own_success(&verdict) {
            ended(pool, sent, Outcome::Nothing, hold);
        } else if report.followed && verdict == Verdict::Committed {
            begun(pool, sent, context, hold);
        } else {
            ended(pool, sent, Outcome::of(&verdict), hold);
        }
        // The attempt's state is not kept for longer than the attempt.
        *kept = None;
        Poll::Ready(outcome)
    }
}
