use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::sync::watch;
use tower_service::Service;

use super::Judge;
use super::attempt::Attempt;
use super::list::List;
use crate::poll::polled_after_completion;
use crate::{Classify, HasCallContext, ReadPushback};

type Changes<S> = watch::Receiver<Arc<List<S>>>;
/// The next list that is not empty.
type Filled<S> = Pin<Box<dyn Future<Output = Arc<List<S>>> + Send + Sync>>;

fn filled<S: Send + 'static>(mut changes: Changes<S>) -> Filled<S> {
    Box::pin(async move {
        let next = changes.wait_for(|list| !list.is_empty()).await;
        match next.ok().map(|list| Arc::clone(&list)) {
            Some(list) => list,
            // Nothing is left that could fill it: the call waits for its deadline.
            None => std::future::pending().await,
        }
    })
}

pin_project! {
    /// The future of [`Backends`](super::Backends): waits for a backend and for its readiness,
    /// sends the attempt, and learns from its outcome.
    pub struct BackendsFuture<S, C, P, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req>,
        judge: Arc<Judge<C, P>>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        // The list is empty.
        Waiting { filled: Filled<S>, changes: Changes<S>, request: Req },
        Sent { #[pin] attempt: Attempt<S, Req> },
        Done,
    }
}

impl<S: Service<Req>, C, P, Req> BackendsFuture<S, C, P, Req> {
    #[inline]
    pub(super) const fn sent(attempt: Attempt<S, Req>, judge: Arc<Judge<C, P>>) -> Self {
        let state = State::Sent { attempt };
        Self { state, judge }
    }
}

impl<S, C, P, Req> BackendsFuture<S, C, P, Req>
where
    S: Service<Req> + Send + 'static,
{
    #[cold]
    pub(super) fn waiting(changes: Changes<S>, request: Req, judge: Arc<Judge<C, P>>) -> Self {
        let state = State::waiting(changes, request);
        Self { state, judge }
    }
}

impl<S: Service<Req> + Send + 'static, Req> State<S, Req> {
    fn waiting(changes: Changes<S>, request: Req) -> Self {
        Self::Waiting {
            filled: filled(changes.clone()),
            changes,
            request,
        }
    }
}

impl<S, C, P, Req> Future for BackendsFuture<S, C, P, Req>
where
    S: Service<Req> + Clone + Send + 'static,
    C: Classify<S::Response, S::Error>,
    P: ReadPushback<S::Response, S::Error>,
    Req: HasCallContext,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let list = match this.state.as_mut().project() {
                StateProj::Sent { attempt } => return attempt.poll(cx, this.judge),
                StateProj::Waiting { filled, .. } => ready!(filled.as_mut().poll(cx)),
                StateProj::Done => polled_after_completion("BackendsFuture"),
            };
            if let StateOwned::Waiting {
                changes, request, ..
            } = this.state.as_mut().project_replace(State::Done)
            {
                this.state.set(match list.choose(request.context()) {
                    Some(sent) => State::Sent {
                        attempt: Attempt::send(&list, sent, request),
                    },
                    None => State::waiting(changes, request),
                });
            }
        }
    }
}

impl<S: Service<Req>, C, P, Req> fmt::Debug for BackendsFuture<S, C, P, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendsFuture")
            .field("is_sent", &matches!(self.state, State::Sent { .. }))
            .finish_non_exhaustive()
    }
}
