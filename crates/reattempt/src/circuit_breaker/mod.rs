//! `CircuitBreakerLayer`: refuses attempts while their backend fails.
//!
//! A [`CircuitBreaker`] is closed, open or half-open, by a
//! [`HealthPolicy`](crate::health::HealthPolicy) and by hand. An attempt that it refuses was never
//! sent: below a recovery layer its reason is
//! [`CIRCUIT_BREAKER_OPEN`](crate::reason::CIRCUIT_BREAKER_OPEN), whatever the classifier says of
//! the outcome. Where each backend of a [`RoundRobin`](crate::RoundRobin) has a breaker, any
//! request moves on to the next one, uncounted. Where the call has tried all of them, the policy
//! decides if one let it through, or if the protocol waits for a circuit to close; otherwise the
//! call ends.
//!
//! Put it directly around the transport of one backend, or around all transports of one route; or
//! pick a breaker for each request ([`PickBreaker`]).
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Instant;
//! use reattempt::circuit_breaker::{CircuitBreakerLayer, CircuitOpen};
//! use reattempt::health::{CircuitBreaker, HealthPolicy};
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{
//!     Call, CallContext, Failure, RetryInfo, RetryLayer, Stage, Verdict, classify_fn, reason,
//! };
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let classifier = classify_fn(|outcome: Result<&(), &BoxError>, _: &CallContext| match outcome {
//!     Ok(()) => Verdict::Success,
//!     Err(_) => Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight)),
//! });
//! let breaker = Arc::new(CircuitBreaker::new(HealthPolicy::standard(), Instant::now()));
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(classifier.clone(), MaxAttempts::standard()))
//!     .layer(CircuitBreakerLayer::new(Arc::clone(&breaker), classifier))
//!     .service_fn(|_: Call<()>| async { Ok::<_, BoxError>(()) });
//!
//! breaker.open(); // by hand, for maintenance
//! let mut call = Call::new(());
//! let watch = RetryInfo::track(&mut call);
//! let error = service.oneshot(call).await.unwrap_err();
//! assert!(error.is::<CircuitOpen>());
//! let failure = watch.info().records().next().and_then(|record| record.failure).unwrap();
//! assert_eq!(failure.reason, reason::CIRCUIT_BREAKER_OPEN);
//! # }
//! ```

mod future;
mod layer;
mod pick;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use crate::deadline::AsError;
use crate::health::{CircuitBreaker, CircuitState, Outcome, Waits};
use crate::{CallContext, Classify, HasCallContext};
use crate::{Stage, clock};
pub use future::CircuitFuture;
pub use layer::CircuitBreakerLayer;
pub use pick::PickBreaker;
use trial::Trial;

/// A circuit breaker refused the request: it was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker {}: the request was not sent", said(self.state))]
#[non_exhaustive]
pub struct CircuitOpen {
    /// The circuit's state: open or half-open.
    pub state: CircuitState,
}

impl CircuitOpen {
    /// For tests of an [`OnOpen`].
    #[must_use]
    pub const fn new(state: CircuitState) -> Self {
        Self { state }
    }
}

/// Without a time, so that equal refusals have equal texts.
const fn said(state: CircuitState) -> &'static str {
    match state {
        CircuitState::Open(Duration::MAX) => {
            "was opened by hand (`CircuitBreaker::automatic` ends that)"
        }
        CircuitState::Open(_) => "is open, because its backend failed",
        CircuitState::HalfOpen => "is half-open, and another request is the trial",
        CircuitState::Closed => "was open",
    }
}

/// Makes the outcome for the caller of a request that is refused.
///
/// Closures `Fn(CircuitOpen) -> Result<Res, Err>` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn a refusal of the circuit breaker into `Result<{Res}, {Err}>`",
    note = "put `ClientErrorLayer` directly above the transport: its error type has room for `CircuitOpen`, and for the transport's own error",
    note = "or put `.map_err(BoxError::from)` below the CircuitBreakerLayer, implement `From<CircuitOpen>` for an error type of your own, or set a closure by `on_open`"
)]
pub trait OnOpen<Res, Err> {
    /// The outcome of a request that was not sent.
    fn on_open(&self, refused: CircuitOpen) -> Result<Res, Err>;
}

#[diagnostic::do_not_recommend]
impl<Res, Err: From<CircuitOpen>> OnOpen<Res, Err> for AsError {
    fn on_open(&self, refused: CircuitOpen) -> Result<Res, Err> {
        Err(Err::from(refused))
    }
}

#[diagnostic::do_not_recommend]
impl<Res, Err, F: Fn(CircuitOpen) -> Result<Res, Err>> OnOpen<Res, Err> for F {
    fn on_open(&self, refused: CircuitOpen) -> Result<Res, Err> {
        self(refused)
    }
}

/// A service behind a circuit breaker. Made by [`CircuitBreakerLayer`].
#[derive(Debug)]
pub struct Circuit<S, C, M = AsError, B = Arc<CircuitBreaker>> {
    inner: S,
    permit: Permit,
    /// Since the inner service was not ready.
    waits: Option<Waits>,
    layer: CircuitBreakerLayer<C, M, B>,
}

/// What was decided before the request is known.
#[derive(Debug)]
enum Permit {
    /// Nothing.
    Undecided,
    /// The inner service was not asked whether it is ready, because it would not be sent anything.
    Refused(CircuitState),
    /// The request is the trial: others are refused while this one waits for the inner service.
    Trial(Trial),
}

impl Permit {
    /// The trial that was reserved is not sent.
    #[inline]
    fn give_back(self) {
        if let Self::Trial(mut trial) = self {
            trial.set_idle();
        }
    }
}

impl<S, C, M, B> Circuit<S, C, M, B> {
    /// What a request of any kind would meet now.
    fn decide(&mut self, breaker: &Arc<CircuitBreaker>) {
        if let Permit::Trial(trial) = &mut self.permit {
            if trial.is_current() {
                return;
            }
            trial.set_idle();
        }
        self.permit = match breaker.reserve(clock::now) {
            Ok(None) => Permit::Undecided,
            Ok(Some(sent)) => Permit::Trial(Trial::new(Arc::clone(breaker), sent)),
            Err(state) => Permit::Refused(state),
        };
    }

    /// The inner service is not ready. If the circuit opens meanwhile, the caller is refused.
    #[cold]
    fn wait<Err>(
        &mut self,
        breaker: &Arc<CircuitBreaker>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Err>> {
        let waits = self.waits.get_or_insert_with(|| breaker.wait());
        waits.until_open(cx);
        // It may have opened before the caller was known to wait.
        self.decide(breaker);
        if matches!(self.permit, Permit::Refused(_)) {
            self.waits = None;
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// The inner service failed before it took a request.
    #[cold]
    fn unready<Res, Err>(&mut self, breaker: &Arc<CircuitBreaker>, error: &Err)
    where
        C: Classify<Res, Err>,
    {
        let trial = match std::mem::replace(&mut self.permit, Permit::Undecided) {
            Permit::Trial(trial) => Some(trial),
            Permit::Undecided | Permit::Refused(_) => {
                let sent = breaker.admit(clock::now()).ok();
                sent.map(|sent| Trial::new(Arc::clone(breaker), sent))
            }
        };
        if let Some(mut trial) = trial {
            let context = CallContext::default();
            let verdict = self.layer.classifier.classify(Err(error), &context);
            trial.ended(Outcome::of(&verdict));
        }
    }
}

impl<S, C, M, B, Req> Service<Req> for Circuit<S, C, M, B>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error> + Clone,
    M: OnOpen<S::Response, S::Error>,
    B: PickBreaker<Req>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CircuitFuture<S::Future, S::Response, S::Error, C>;

    /// With one breaker for all requests: ready while it would refuse, whether or not the inner
    /// service is, so that the caller gets the refusal at once. Callers that wait for the inner
    /// service when the circuit opens are woken and refused. Of a half-open circuit one caller
    /// waits for the inner service; whether its request is the trial is decided when it is sent. An
    /// error of the inner service is an outcome as that of a request is.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let Some(breaker) = self.layer.breaker.of_all().map(Arc::clone) else {
            return self.inner.poll_ready(cx);
        };
        self.decide(&breaker);
        if matches!(self.permit, Permit::Refused(_)) {
            self.waits = None;
            return Poll::Ready(Ok(()));
        }
        let Poll::Ready(outcome) = self.inner.poll_ready(cx) else {
            return self.wait(&breaker, cx);
        };
        self.waits = None;
        match (&outcome, &mut self.permit) {
            (Err(error), _) => self.unready::<S::Response, S::Error>(&breaker, error),
            (Ok(()), Permit::Trial(trial)) => trial.set_idle(),
            (Ok(()), _) => {}
        }
        Poll::Ready(outcome)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let permit = std::mem::replace(&mut self.permit, Permit::Undecided);
        let admitted = if let Permit::Refused(state) = permit {
            Err(state)
        } else {
            // A reservation is given back: what holds now counts, and not what held when the
            // service got ready.
            permit.give_back();
            match self.layer.breaker.pick(&request) {
                None => Ok(None),
                Some(breaker) => {
                    let admitted = breaker.admit(clock::now());
                    admitted.map(|sent| Some(Trial::new(breaker, sent)))
                }
            }
        };
        let context = request.context();
        let reporter = context.map(CallContext::reporter);
        if let (Some(context), Some(reporter)) = (context, &reporter) {
            context.sent_on();
            let report = context.report();
            if admitted.is_err() {
                // A layer between sends one attempt in several steps: an earlier one went out.
                if report.stage.is_some_and(|at| at > Stage::Dispatch) {
                    reporter.in_doubt();
                }
                reporter.circuit_open();
                reporter.stage(Stage::Dispatch);
            } else if report.circuit_open {
                reporter.sent_again();
            }
        }
        match admitted {
            Ok(trial) => {
                let context = context.map(CallContext::share);
                let future = self.inner.call(request);
                CircuitFuture::sent(future, trial, self.layer.classifier.clone(), context)
            }
            Err(state) => {
                // The service may hold a permit or a connection for this request, or wait for one.
                self.inner = self.inner.clone();
                let outcome = self.layer.on_open.on_open(CircuitOpen { state });
                match (&outcome, reporter) {
                    (_, None) => {}
                    (Ok(_), Some(reporter)) => reporter.own_answer(),
                    (Err(_), Some(reporter)) => reporter.own_failure(),
                }
                CircuitFuture::refused(outcome)
            }
        }
    }
}

/// Without what the original waits for.
impl<S: Clone, C: Clone, M: Clone, B: Clone> Clone for Circuit<S, C, M, B> {
    fn clone(&self) -> Self {
        self.layer.layer(self.inner.clone())
    }
}
