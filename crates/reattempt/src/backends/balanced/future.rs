use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_service::Service;

use super::list::List;
use super::{BackendsFuture, Judge};
use crate::clock;
use crate::health::{Outcome, Sent};
use crate::{CallContext, Classify, ReadPushback, ServerPushback};

/// An attempt in flight. Dropped without an outcome, it took at least as long as it lasted.
pub(super) struct Flight<S> {
    list: Arc<List<S>>,
    sent: Option<Sent>,
}

impl<S> Flight<S> {
    pub(super) const fn new(list: Arc<List<S>>, sent: Sent) -> Self {
        let sent = Some(sent);
        Self { list, sent }
    }

    fn ended(&mut self, outcome: Outcome, hold: Option<Duration>) {
        if let Some(sent) = self.sent.take() {
            self.list.pool().ended(sent, clock::now(), outcome, hold);
        }
    }
}

impl<S> Drop for Flight<S> {
    fn drop(&mut self) {
        self.ended(Outcome::Dropped, None);
    }
}

pin_project! {
    /// The future of [`Balanced`](super::Balanced): waits for the chosen backend to be ready, sends
    /// the attempt, and learns from its outcome.
    pub struct BalancedFuture<S, C, P, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        inner: BackendsFuture<S, Req>,
        flight: Flight<S>,
        judge: Arc<Judge<C, P>>,
        context: Option<CallContext>,
    }
}

impl<S: Service<Req>, C, P, Req> BalancedFuture<S, C, P, Req> {
    pub(super) const fn new(
        inner: BackendsFuture<S, Req>,
        flight: Flight<S>,
        judge: Arc<Judge<C, P>>,
        context: Option<CallContext>,
    ) -> Self {
        Self {
            inner,
            flight,
            judge,
            context,
        }
    }
}

impl<S, C, P, Req> Future for BalancedFuture<S, C, P, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    P: ReadPushback<S::Response, S::Error>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        let context = this.context.get_or_insert_default();
        let verdict = this.judge.classifier.classify(outcome.as_ref(), context);
        let reported = context.report().pushback;
        let pushback = &this.judge.pushback;
        let asked = reported.or_else(|| pushback.read_in(outcome.as_ref(), context).valid());
        let hold = match asked {
            Some(ServerPushback::After(delay)) => Some(delay),
            Some(ServerPushback::Stop) | None => None,
        };
        this.flight.ended(Outcome::of(&verdict), hold);
        // The attempt's state is not kept for longer than the attempt.
        *this.context = None;
        Poll::Ready(outcome)
    }
}

impl<S: Service<Req>, C, P, Req> fmt::Debug for BalancedFuture<S, C, P, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalancedFuture")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
