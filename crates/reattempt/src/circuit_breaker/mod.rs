//! `CircuitBreakerLayer`: refuses attempts while their backend fails.
//!
//! A [`CircuitBreaker`] is closed, open or half-open, by a
//! [`HealthPolicy`](crate::health::HealthPolicy) and by hand. An attempt that it refuses was never
//! sent: below a recovery layer its reason is
//! [`CIRCUIT_BREAKER_OPEN`](crate::reason::CIRCUIT_BREAKER_OPEN), whatever the classifier says of
//! the outcome. Over several [`Backends`](crate::Backends), each with a breaker, any request moves
//! on to the next one, uncounted; without another one the call ends.
//!
//! Put it directly around the transport of one backend, or around all transports of one route.
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
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tower_layer::Layer;
use tower_service::Service;

use crate::deadline::AsError;
use crate::health::{CircuitBreaker, CircuitState, Outcome};
use crate::{CallContext, Classify, HasCallContext};
use crate::{Stage, clock};
pub use future::CircuitFuture;
use future::Trial;

/// A circuit breaker refused the request: it was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker is open: the backend failed, and the request was not sent to it")]
pub struct CircuitOpen {
    /// The circuit's state: open or half-open.
    pub state: CircuitState,
}

/// Makes the outcome for the caller of a request that is refused.
///
/// Closures `Fn(CircuitOpen) -> Result<Res, Err>` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn a refusal of the circuit breaker into `Result<{Res}, {Err}>`",
    note = "put `.map_err(BoxError::from)` below the CircuitBreakerLayer, implement `From<CircuitOpen>` for an error type of your own, or set a closure by `on_open`"
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

/// Refuses attempts while their backend fails.
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer<C, M = AsError> {
    breaker: Arc<CircuitBreaker>,
    classifier: C,
    on_open: M,
}

impl<C> CircuitBreakerLayer<C> {
    /// Uses this breaker, which other layers and the program may share. The classifier is that of
    /// the recovery layer: a verdict that the request is at fault says nothing against the backend.
    #[must_use]
    pub const fn new(breaker: Arc<CircuitBreaker>, classifier: C) -> Self {
        Self {
            breaker,
            classifier,
            on_open: AsError,
        }
    }
}

impl<C, M> CircuitBreakerLayer<C, M> {
    /// Sets the outcome of a refused request; by default an error made from [`CircuitOpen`]. One
    /// that the classifier takes for a success is a fallback.
    #[must_use]
    pub fn on_open<N>(self, on_open: N) -> CircuitBreakerLayer<C, N> {
        CircuitBreakerLayer {
            breaker: self.breaker,
            classifier: self.classifier,
            on_open,
        }
    }
}

impl<S, C: Clone, M: Clone> Layer<S> for CircuitBreakerLayer<C, M> {
    type Service = Circuit<S, C, M>;

    fn layer(&self, inner: S) -> Self::Service {
        Circuit {
            inner,
            refused: None,
            breaker: Arc::clone(&self.breaker),
            classifier: self.classifier.clone(),
            on_open: self.on_open.clone(),
        }
    }
}

/// A service behind a circuit breaker. Made by [`CircuitBreakerLayer`].
#[derive(Clone, Debug)]
pub struct Circuit<S, C, M = AsError> {
    inner: S,
    /// The inner service was not asked whether it is ready, because it would not be sent anything.
    refused: Option<CircuitState>,
    breaker: Arc<CircuitBreaker>,
    classifier: C,
    on_open: M,
}

impl<S, C, M> Circuit<S, C, M> {
    /// The inner service failed before it took a request.
    #[cold]
    fn unready<Res, Err>(&self, error: &Err)
    where
        C: Classify<Res, Err>,
    {
        let now = clock::now();
        if let Ok(sent) = self.breaker.admit(now) {
            let verdict = self
                .classifier
                .classify(Err(error), &CallContext::default());
            self.breaker.ended(sent, now, Outcome::of(&verdict));
        }
    }
}

impl<S, C, M, Req> Service<Req> for Circuit<S, C, M>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error> + Clone,
    M: OnOpen<S::Response, S::Error>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CircuitFuture<S::Future, S::Response, S::Error, C>;

    /// Ready while it would refuse, whether or not the inner service is: the caller gets the
    /// refusal at once. An error of the inner service is an outcome as that of a request is.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.refused = self.breaker.would_refuse(clock::now);
        if self.refused.is_some() {
            return Poll::Ready(Ok(()));
        }
        let outcome = ready!(self.inner.poll_ready(cx));
        if let Err(error) = &outcome {
            self.unready::<S::Response, S::Error>(error);
        }
        Poll::Ready(outcome)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let admitted = match self.refused.take() {
            Some(state) => Err(state),
            None => self.breaker.admit(clock::now()),
        };
        let context = request.context();
        if let Some(context) = context {
            let reporter = context.reporter();
            reporter.circuit_open(admitted.is_err());
            if admitted.is_err() {
                // A layer between sends one attempt in several steps: an earlier one went out.
                if context
                    .report()
                    .stage
                    .is_some_and(|at| at > Stage::Dispatch)
                {
                    reporter.in_doubt();
                }
                reporter.stage(Stage::Dispatch);
                reporter.own_answer();
            }
        }
        match admitted {
            Ok(sent) => {
                let context = context.map(CallContext::share);
                let trial = Trial::new(Arc::clone(&self.breaker), sent);
                let future = self.inner.call(request);
                CircuitFuture::sent(future, trial, self.classifier.clone(), context)
            }
            Err(state) => CircuitFuture::refused(self.on_open.on_open(CircuitOpen { state })),
        }
    }
}
