//! The futures of a retried function: the layers' own, begun at the first poll.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::function::Function;
use super::{Attempt, NoTimeout, RetryFn, WithTimeout};
use crate::client_error::WithClientErrorFuture;
use crate::deadline::{AsError, DeadlineFuture};
use crate::poll::polled_after_completion;
use crate::recovery::Warnings;
use crate::retry::{Retry, RetryFuture};
use crate::{
    Call, Classify, ClientErrorLayer, DeadlineLayer, HasCallContext, RetryInfo, RetryInfoHandle,
    RetryLayer,
};

/// A call that has not begun. Public for the types that name it, and not outside of this module.
pub trait Begin {
    /// The call in progress.
    type Running: Future;

    /// Begins the call: its deadline runs from here.
    fn begin(self) -> Self::Running;
}

/// Each call has a layer of its own, and would warn on its own. The first kind of call that is
/// wrong is the one that is warned of.
static WARNINGS: LazyLock<Warnings> = LazyLock::new(|| Warnings::of("retry"));

impl<F, C, L> RetryFn<F, C, L> {
    /// The service around the function, its request, and the timeout. Readiness need not be waited
    /// for: a function is always ready.
    fn into_service(self) -> (Retry<Function<F>, Arc<C>>, Call<()>, L) {
        let layer = RetryLayer::new(Arc::new(self.classifier), self.strategy);
        let mut layer = layer.warning(&WARNINGS);
        if let Some(observer) = self.observer {
            layer = layer.observer(observer);
        }
        let service = layer.layer(Function::new(self.function));
        (service, Call::with_context((), self.context), self.timeout)
    }
}

impl<F, Fut, T, E, C> Begin for RetryFn<F, C, NoTimeout>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Running = RetryFuture<Function<F>, Arc<C>, Call<()>>;

    fn begin(self) -> Self::Running {
        let (mut service, call, NoTimeout) = self.into_service();
        service.call(call)
    }
}

impl<F, Fut, T, E, C> Begin for RetryFn<F, C, WithTimeout>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Running =
        DeadlineFuture<WithClientErrorFuture<RetryFuture<Function<F>, Arc<C>, Call<()>>>, AsError>;

    fn begin(self) -> Self::Running {
        let (service, call, WithTimeout(timeout)) = self.into_service();
        // Above the recovery layer: the classifier sees the function's own error.
        let service = ClientErrorLayer.layer(service);
        DeadlineLayer::new(timeout).layer(service).call(call)
    }
}

pin_project! {
    /// The future of [`RetryFn`](super::RetryFn).
    ///
    /// # Panics
    ///
    /// When it is polled after it returned the call's outcome.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct RetryFnFuture<R: Begin> {
        #[pin]
        state: State<R, R::Running>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<R, F> {
        /// Not polled yet.
        Idle { call: R },
        Running { #[pin] running: F },
        /// The outcome was returned, or the function panicked when it was called first.
        Done,
    }
}

impl<R: Begin> RetryFnFuture<R> {
    pub(super) const fn new(call: R) -> Self {
        Self {
            state: State::Idle { call },
        }
    }
}

impl<R: Begin> Future for RetryFnFuture<R> {
    type Output = <R::Running as Future>::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProj::Idle { .. } = state.as_mut().project() {
            if let StateOwned::Idle { call } = state.as_mut().project_replace(State::Done) {
                let running = call.begin();
                state.set(State::Running { running });
            }
        }
        let StateProj::Running { running } = state.as_mut().project() else {
            polled_after_completion("RetryFnFuture")
        };
        let outcome = ready!(running.poll(cx));
        // Dropped at once: it may hold a connection.
        state.set(State::Done);
        Poll::Ready(outcome)
    }
}

impl<R: Begin> fmt::Debug for RetryFnFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle { .. } => "Idle",
            State::Running { .. } => "Running",
            State::Done => "Done",
        };
        f.debug_struct("RetryFnFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

/// A call that also returns what happened in it. Made by
/// [`RetryFn::with_info`](super::RetryFn::with_info).
#[derive(Debug)]
#[must_use = "the function is not called unless this is awaited"]
pub struct WithInfo<R>(pub(super) R);

impl<R: IntoFuture + HasCallContext> IntoFuture for WithInfo<R> {
    type Output = (R::Output, RetryInfo);
    type IntoFuture = WithInfoFuture<R::IntoFuture>;

    fn into_future(mut self) -> Self::IntoFuture {
        let handle = RetryInfo::tracked(&mut self.0);
        WithInfoFuture {
            call: self.0.into_future(),
            handle,
        }
    }
}

pin_project! {
    /// The future of [`WithInfo`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct WithInfoFuture<F> {
        #[pin]
        call: F,
        handle: RetryInfoHandle,
    }
}

impl<F: Future> Future for WithInfoFuture<F> {
    type Output = (F::Output, RetryInfo);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.call.poll(cx));
        Poll::Ready((outcome, this.handle.info()))
    }
}
