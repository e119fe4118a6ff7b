use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::poll::polled_after_completion;

pin_project! {
    /// The future of [`RoundRobin`](super::RoundRobin): waits for the chosen backend to be ready,
    /// then sends the attempt.
    ///
    /// # Panics
    ///
    /// When it is polled after the backend failed to become ready.
    pub struct RoundRobinFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        Waiting { service: S, request: Req },
        Sent { #[pin] flight: S::Future },
        Done,
    }
}

impl<S: Service<Req>, Req> RoundRobinFuture<S, Req> {
    #[inline]
    pub(in crate::backends) const fn new(service: S, request: Req) -> Self {
        let state = State::Waiting { service, request };
        Self { state }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for RoundRobinFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundRobinFuture")
            .field("is_sent", &matches!(self.state, State::Sent { .. }))
            .finish_non_exhaustive()
    }
}

impl<S: Service<Req>, Req> Future for RoundRobinFuture<S, Req> {
    type Output = Result<S::Response, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let ready = match state.as_mut().project() {
                StateProj::Sent { flight } => return flight.poll(cx),
                StateProj::Waiting { service, .. } => ready!(service.poll_ready(cx)),
                StateProj::Done => polled_after_completion("RoundRobinFuture"),
            };
            let waited = state.as_mut().project_replace(State::Done);
            ready?;
            if let StateOwned::Waiting {
                mut service,
                request,
            } = waited
            {
                let flight = service.call(request);
                state.set(State::Sent { flight });
            }
        }
    }
}
