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
mod recovering;
mod source;
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
use future::Phase;
pub use future::RetryFuture;
pub use layer::RetryLayer;
use source::{Source, with_context};

/// What the layer was built with, shared by all its services.
struct Config<C> {
    classifier: C,
    strategy: Arc<dyn RetryStrategy>,
    transparent: bool,
    observer: Arc<dyn Observer>,
    /// Does the observer want to hear of attempts that are sent, and of calls that work at once?
    hears: bool,
    /// Did the layer's strategy allow of a second attempt when the layer was built?
    may_follow: bool,
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

    /// Told of an attempt that worked or whose answer began.
    #[inline(always)]
    fn succeeded(&self, context: &CallContext, committed: bool) {
        if self.hears || context.attempt() > 1 {
            self.tell_success(context, committed);
        } else {
            context.settle_success(committed);
        }
    }

    #[inline(never)]
    fn tell_success(&self, context: &CallContext, committed: bool) {
        self.env(context, false).succeeded(committed);
    }

    /// Could a first attempt be followed by another?
    #[inline(always)]
    fn may_follow<Res, Err>(&self, context: &CallContext) -> bool
    where
        C: Classify<Res, Err>,
    {
        // The layer's own strategy said so when the layer was built, and few calls have another.
        if self.may_follow && !context.has_policy() {
            return true;
        }
        self.classifier.may_force() || self.strategy_may_follow(context)
    }

    #[inline(never)]
    fn strategy_may_follow(&self, context: &CallContext) -> bool {
        may_follow(self.strategy(context))
    }

    fn env<'a>(&'a self, context: &'a CallContext, replayable: bool) -> Env<'a> {
        let mut env = Env::new(context);
        env.replayable = replayable;
        env.transparent = self.transparent;
        env.observer = Some(&*self.observer);
        env
    }
}

fn may_follow(strategy: &dyn RetryStrategy) -> bool {
    strategy.max_attempts().is_none_or(|max| max > 1)
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

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let context = request.context_mut();
        if context.is_claimed() {
            return self.pass(request, None);
        }
        if context.has_policy() && self.leaves_to_others(context) {
            context.begin();
            let context = context.clone();
            return self.pass(request, Some(context));
        }
        if context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(natural);
        }
        context.claim_first();
        if self.config.hears {
            self.config.observer.attempt_sent(context);
        }
        let copy = if self.config.may_follow::<S::Response, S::Error>(context) {
            request.replay(&FIRST)
        } else {
            None
        };
        let config = Arc::clone(&self.config);
        let Some(copy) = copy else {
            let context = request.context_mut().clone();
            return RetryFuture::new(
                self.inner.call(request),
                Phase::Flight,
                Source::Last(context),
                config,
            );
        };
        let copy = with_context(copy, &mut request);
        let future = self.inner.call(copy);
        // The instance that was ready has been called; its clone gets ready for further attempts.
        let service = self.inner.clone();
        RetryFuture::new(
            future,
            Phase::Flight,
            Source::Template { request, service },
            config,
        )
    }
}

const FIRST: NextAttempt<'static> = NextAttempt {
    number: 1,
    kind: AttemptKind::Initial,
    after: None,
};

impl<S, C> Retry<S, C> {
    #[cold]
    #[inline(never)]
    fn pass<Req>(&mut self, request: Req, context: Option<CallContext>) -> RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: Annotated,
    {
        let source = context.map_or(Source::Nothing, Source::Last);
        let future = self.inner.call(request);
        RetryFuture::new(future, Phase::Passing, source, Arc::clone(&self.config))
    }

    /// True for a policy that hedges, unless the caller stamped a strategy for this one call.
    #[inline(never)]
    fn leaves_to_others(&self, context: &CallContext) -> bool {
        let Some(policy) = context.policy() else {
            return false;
        };
        let hedges = matches!(policy.get_recovery(), Recovery::Hedge(_));
        if hedges && context.strategy().is_none() {
            return true;
        }
        if context.limit().is_none() && policy.get_call_limit().is_some() {
            self.config.no_deadline_layer.warn(
                "RetryLayer",
                "got a policy with a time limit for the call, but no DeadlineLayer stands above it",
            );
        }
        false
    }
}
