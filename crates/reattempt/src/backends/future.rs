use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`Backends`](super::Backends): waits for the chosen backend to be ready, then
    /// sends the attempt.
    pub struct BackendsFuture<S, Req>
    where
        S: Service<Req>,
    {
        // Present until the backend is ready.
        waiting: Option<(S, Req)>,
        #[pin]
        flight: Option<S::Future>,
    }
}

impl<S: Service<Req>, Req> BackendsFuture<S, Req> {
    pub(super) const fn new(service: S, request: Req) -> Self {
        Self {
            waiting: Some((service, request)),
            flight: None,
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for BackendsFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendsFuture")
            .field("is_sent", &self.flight.is_some())
            .finish_non_exhaustive()
    }
}

impl<S: Service<Req>, Req> Future for BackendsFuture<S, Req> {
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some((service, _)) = this.waiting {
            if let Err(error) = ready!(service.poll_ready(cx)) {
                *this.waiting = None;
                return Poll::Ready(Err(error));
            }
            if let Some((mut service, request)) = this.waiting.take() {
                this.flight.set(Some(service.call(request)));
            }
        }
        match this.flight.as_pin_mut() {
            Some(flight) => flight.poll(cx),
            // It was not ready; its readiness poll registered the waker.
            None => Poll::Pending,
        }
    }
}
