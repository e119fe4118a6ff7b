//! `RetryLayer`: sends a call again when an attempt fails in a way that another may mend.
//!
//! The layer settles each attempt: the classifier says once what it came to, the throttle is told, the
//! strategy is asked, and pushback, throttle, deadline and idempotency have their say. Response and error
//! of the inner service pass through unchanged: when no further attempt is made, the caller gets the
//! failure that the server gave.
//!
//! ```
//! use reattempt::retry::RetryLayer;
//! use reattempt::strategy::BestEffort;
//! use reattempt::{Call, CallContext, Failure, Stage, Verdict, classify_fn, reason};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::convert::Infallible> {
//! // The server's status, in your protocol's own words.
//! let classifier = classify_fn(|outcome: Result<&u16, &std::convert::Infallible>, _: &CallContext| {
//!     match outcome {
//!         Ok(0x00) => Verdict::Success,
//!         Ok(0x86) => Verdict::Retry(Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response)),
//!         _ => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response)),
//!     }
//! });
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(classifier, BestEffort::new()))
//!     .service_fn(|_: Call<&'static str>| async {
//!         Ok(if CALLS.fetch_add(1, Ordering::Relaxed) < 2 { 0x86 } else { 0x00 })
//!     });
//!
//! let mut request = Call::new("get");
//! let watch = CallContext::watch(&mut request);
//! assert_eq!(service.oneshot(request).await?, 0x00);
//! assert_eq!(watch.info().attempts(), 3);
//! assert!(watch.info().reasons().eq([reason::KV_TEMPORARY_FAILURE]));
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use reattempt_core::machine::Env;
use reattempt_core::strategy::FailFast;
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, Idempotency, NextAttempt, Observer, Recovery,
    Replay, RetryStrategy,
};
use tower_service::Service;

use crate::order::OneWarning;
pub use future::RetryFuture;
pub use layer::RetryLayer;

/// What the layer was built with, shared by all its services.
struct Config<C> {
    classifier: C,
    strategy: Arc<dyn RetryStrategy>,
    transparent: bool,
    observer: Arc<dyn Observer>,
    no_hedge_layer: OneWarning,
    no_deadline_layer: OneWarning,
}

impl<C> Config<C> {
    /// The caller's strategy beats the policy's, the policy's beats the layer's.
    fn strategy<'a>(&'a self, context: &'a CallContext) -> &'a dyn RetryStrategy {
        if let Some(strategy) = context.strategy() {
            return &**strategy;
        }
        match context.policy().map(|policy| policy.get_recovery()) {
            Some(Recovery::Retry(strategy)) => &**strategy,
            Some(Recovery::None) => &FailFast,
            Some(Recovery::Default | Recovery::Hedge(_)) | None => &*self.strategy,
        }
    }

    fn env<'a>(&'a self, context: &'a CallContext, replayable: bool) -> Env<'a> {
        let mut env = Env::new(context);
        env.replayable = replayable;
        env.transparent = self.transparent;
        env.observer = Some(&*self.observer);
        env
    }
}

/// Sends calls again. Made by [`RetryLayer`].
pub struct Retry<S, C> {
    inner: S,
    config: Arc<Config<C>>,
}

impl<S: Clone, C> Clone for Retry<S, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            config: Arc::clone(&self.config),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Retry<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("inner", &self.inner)
            .field("strategy", &self.config.strategy)
            .finish_non_exhaustive()
    }
}

impl<S, C, Req> Service<Req> for Retry<S, C>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, C, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let context = request.context_mut();
        if context.is_claimed() {
            return RetryFuture::passing(self.inner.call(request), None, Arc::clone(&self.config));
        }
        let hedges = context
            .policy()
            .is_some_and(|policy| matches!(policy.get_recovery(), Recovery::Hedge(_)));
        if hedges && context.strategy().is_none() {
            context.begin();
            let context = context.clone();
            let future = self.inner.call(request);
            return RetryFuture::passing(future, Some(context), Arc::clone(&self.config));
        }
        if context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(natural);
        }
        let warning = &self.config.no_deadline_layer;
        warning.warn_if_unlimited("RetryLayer", context);
        context.claim();
        context.start_attempt(1, AttemptKind::Initial);
        let context = std::mem::take(context);

        let strategy = self.config.strategy(&context);
        let may_follow =
            self.config.classifier.may_force() || strategy.max_attempts().is_none_or(|max| max > 1);
        let first = NextAttempt {
            number: 1,
            kind: AttemptKind::Initial,
            after: None,
        };
        let copy = if may_follow {
            request.replay(&first)
        } else {
            None
        };
        let (mut sent, template) = match copy {
            Some(copy) => (copy, Some(request)),
            None => (request, None),
        };
        *sent.context_mut() = context.clone();
        self.config.observer.attempt_sent(&context);
        let future = self.inner.call(sent);
        // The instance that was ready has been called; its clone gets ready for further attempts.
        let service = template.is_some().then(|| self.inner.clone());
        RetryFuture::acting(future, context, template, service, Arc::clone(&self.config))
    }
}
