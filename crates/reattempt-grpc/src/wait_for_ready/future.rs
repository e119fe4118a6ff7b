use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use pin_project_lite::pin_project;
use reattempt::backoff::Backoff;
use reattempt::timer::Timer;
use reattempt::{AttemptReporter, CallContext, HasCallContext, MOST_RECORDS, Replay, Stage};
use reattempt_http::{TransportError, TransportFault};
use tower_service::Service;

use super::again;
use crate::ControlPlaneFailure;

/// What another try needs.
pub(super) struct Waiting<S, B> {
    template: Request<B>,
    service: S,
    backoff: Backoff,
    tries: u32,
    delay: Option<Duration>,
    timer: Timer,
    reporter: Option<AttemptReporter>,
}

/// Bounds of every delay: the task yields, and no clock overflows.
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(24 * 60 * 60);

impl<S, B> Waiting<S, B> {
    pub(super) fn new(template: Request<B>, service: S, backoff: Backoff) -> Self {
        Self {
            template,
            service,
            backoff,
            tries: 0,
            delay: None,
            timer: Timer::default(),
            reporter: None,
        }
    }

    /// Nothing was sent: starts to wait, for a further backend if there was one. False if the
    /// deadline comes before the end of the wait and no layer enforces it.
    fn wait(&mut self, has_backend: bool) -> bool {
        let delay = self.delay(has_backend).max(LEAST);
        let until = tokio::time::Instant::now().into_std() + delay;
        let limit = self
            .template
            .context()
            .and_then(|context| context.deadline());
        if limit.is_some_and(|limit| !limit.enforced && until >= limit.at) {
            // The previous try was not sent either.
            if self.reporter.is_some() {
                self.report(Stage::Dispatch);
            }
            return false;
        }
        self.timer.set_to(until);
        self.report(Stage::Dispatch);
        true
    }

    /// The time until the next try: short if there may be a backend that the call has not tried.
    /// Once all were tried, each is tried as often as if it were the only one.
    fn delay(&mut self, has_backend: bool) -> Duration {
        let context = self.template.context();
        let tried = context.map_or(0, |context| context.backends_tried().len());
        let untried = context.is_some_and(|context| context.report().untried_backend);
        // The call records no more backends than this, and a balancer may report one for ever.
        if has_backend && untried && tried < MOST_RECORDS {
            return LEAST;
        }
        let delay = self.backoff.delay(self.tries, self.delay);
        let delay = delay.clamp(LEAST, MOST);
        self.tries = self.tries.saturating_add(1);
        self.delay = Some(delay);
        let tried = u32::try_from(tried).unwrap_or(u32::MAX);
        delay / tried.max(1)
    }

    /// Reports only after a wait: before that the transport knows the stage better.
    fn report(&mut self, stage: Stage) {
        let template = &self.template;
        let of_call = || template.context().map(CallContext::reporter);
        let reporter = self
            .reporter
            .get_or_insert_with(|| of_call().unwrap_or_default());
        reporter.stage(stage);
    }
}

impl<S, B> Waiting<S, B>
where
    S: Service<Request<B>>,
    B: Replay,
{
    /// Ready with the next try; `None` if the service failed, or the request cannot be copied
    /// again.
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<Option<S::Future>> {
        ready!(self.timer.poll(cx));
        if ready!(self.service.poll_ready(cx)).is_err() {
            return Poll::Ready(None);
        }
        let Some(copy) = again(&self.template) else {
            return Poll::Ready(None);
        };
        if let Some(reporter) = &self.reporter {
            reporter.sent_again();
        }
        Poll::Ready(Some(self.service.call(copy)))
    }

    /// The call has a response, or a failure that this layer does not wait for.
    fn over(mut self) {
        self.template.body_mut().release();
    }
}

pin_project! {
    /// The future of [`WaitsForReady`](super::WaitsForReady).
    pub struct WaitForReadyFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S::Future, Waiting<S, B>, Result<S::Response, S::Error>>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<F, W, O> {
        InFlight {
            #[pin]
            flight: F,
            // `None` for a call that does not wait.
            waiting: Option<Box<W>>,
        },
        // The last try failed before anything was sent.
        Waiting { waiting: Box<W>, last: O },
        Done,
    }
}

impl<S, B> WaitForReadyFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn new(flight: S::Future, waiting: Option<Waiting<S, B>>) -> Self {
        let waiting = waiting.map(Box::new);
        Self {
            state: State::InFlight { flight, waiting },
        }
    }
}

impl<S, B> fmt::Debug for WaitForReadyFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForReadyFuture")
            .field("sent", &matches!(self.state, State::InFlight { .. }))
            .finish_non_exhaustive()
    }
}

#[cold]
fn polled_after_completion() -> ! {
    panic!("`WaitForReadyFuture` polled after completion")
}

/// Certain that nothing was sent: there was no connection, or no backend.
fn is_not_ready<R, E: TransportError>(outcome: &Result<Response<R>, E>) -> bool {
    match outcome {
        Ok(response) => response
            .extensions()
            .get()
            .is_some_and(ControlPlaneFailure::is_without_backend),
        Err(error) => matches!(
            error.fault(),
            TransportFault::ConnectFailed | TransportFault::NeverSent
        ),
    }
}

impl<S, B, R> Future for WaitForReadyFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: TransportError,
    B: Replay,
{
    type Output = Result<S::Response, S::Error>;

    /// # Panics
    ///
    /// When it is polled after it returned the outcome of a call that waits.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::InFlight { flight, waiting } => {
                    let outcome = ready!(flight.poll(cx));
                    let Some(mut waiting) = waiting.take() else {
                        return Poll::Ready(outcome);
                    };
                    // The future of this try is dropped before the wait.
                    state.set(State::Done);
                    if !(is_not_ready(&outcome) && waiting.wait(outcome.is_err())) {
                        waiting.over();
                        return Poll::Ready(outcome);
                    }
                    let last = outcome;
                    state.set(State::Waiting { waiting, last });
                }
                StateProj::Waiting { waiting, .. } => {
                    let again = ready!(waiting.poll_again(cx));
                    match (again, state.as_mut().project_replace(State::Done)) {
                        (Some(flight), StateOwned::Waiting { waiting, .. }) => {
                            let waiting = Some(waiting);
                            state.set(State::InFlight { flight, waiting });
                        }
                        (None, StateOwned::Waiting { last, .. }) => return Poll::Ready(last),
                        _ => polled_after_completion(),
                    }
                }
                StateProj::Done => polled_after_completion(),
            }
        }
    }
}
