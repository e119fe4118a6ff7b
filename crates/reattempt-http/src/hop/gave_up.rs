//! `GaveUpLayer`: reports to the hop being served that a call made for it has given up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use reattempt::{CallHandle, HasCallContext, RetryInfo, StackCheck, StopReason};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::Hop;
use super::headers::do_not_retry;
use crate::gives_up;

/// Extension of a response: the call has given up, for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp(pub StopReason);

/// Reports to the [`Hop`] being served that a call made for it has given up, and puts [`GaveUp`]
/// into the response's extensions, so that a gateway that forwards the response needs nothing else.
/// A call that is dropped after a retry is reported too, if the request that it serves has reached
/// its deadline. Put it outermost in a client, above its deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct GaveUpLayer;

impl<S> Layer<S> for GaveUpLayer {
    type Service = GaveUpService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GaveUpService {
            inner,
            order: StackCheck::default(),
        }
    }
}

/// Created by [`GaveUpLayer`].
#[derive(Clone, Debug)]
pub struct GaveUpService<S> {
    inner: S,
    order: StackCheck,
}

impl<S, B, C> Service<Request<B>> for GaveUpService<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = GaveUpFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let hop = Hop::of(&request).cloned();
        let context = request.context_mut();
        self.order.outside_recovery("GaveUpLayer", context);
        let handle = context.begin();
        GaveUpFuture {
            inner: self.inner.call(request),
            handle,
            hop,
        }
    }
}

pin_project! {
    /// The future of [`GaveUpService`].
    #[derive(Debug)]
    pub struct GaveUpFuture<F> {
        #[pin]
        inner: F,
        handle: CallHandle,
        // None once there is an outcome.
        hop: Option<Hop>,
    }

    impl<F> PinnedDrop for GaveUpFuture<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(hop) = this.hop {
                // Else the handler dropped it for its own reasons, such as another call's failure.
                let now = Instant::now().into_std();
                let is_late = hop.deadline().is_some_and(|at| at <= now);
                if is_late && gives_up(StopReason::Cancelled, this.handle.info().retries()) {
                    hop.give_up(StopReason::Cancelled);
                }
            }
        }
    }
}

/// Why a call with this outcome has given up, if it has: only then an attempt of another hop would
/// multiply the attempts.
fn why(info: &RetryInfo) -> Option<StopReason> {
    let stopped = info.stopped()?;
    gives_up(stopped, info.retries()).then_some(stopped)
}

impl<F, C, E> Future for GaveUpFuture<F>
where
    F: Future<Output = Result<Response<C>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = ready!(this.inner.poll(cx));
        let hop = this.hop.take();
        let info = this.handle.info();
        let failed = !matches!(
            info.stopped(),
            Some(StopReason::Success | StopReason::Committed)
        );
        // Obeyed even if this hop's policy would not have retried anyway.
        let told = |response: &Response<C>| {
            let told = failed && do_not_retry(response.headers()).is_some();
            told.then_some(StopReason::Pushback)
        };
        let why = why(&info).or_else(|| told(outcome.as_ref().ok()?));
        if let Some(why) = why {
            if let Some(hop) = hop {
                hop.give_up(why);
            }
            if let Ok(response) = &mut outcome {
                response.extensions_mut().insert(GaveUp(why));
            }
        }
        Poll::Ready(outcome)
    }
}
