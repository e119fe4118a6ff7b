//! `HedgeLayer`: sends further attempts before one has failed (A6, Hedging Policy).
//!
//! The first attempt is sent at once, further ones after the policy's delay; the first result that
//! is not a failure wins and the others are dropped at once. Only idempotent calls are hedged,
//! unless the policy allows others
//! ([`HedgePolicy::hedge_non_idempotent`](reattempt_core::HedgePolicy::hedge_non_idempotent)). The
//! throttle is asked when a hedge is due. A hedge's failure never ends the call while another
//! attempt can succeed, unless it is fatal.
//!
//! In a stack with a `RetryLayer` the route's policy decides which of the two acts.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::{
//!     Annotated, Call, CallContext, HedgeLayer, HedgePolicy, Idempotency, Verdict, classify_fn,
//! };
//! use std::convert::Infallible;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Infallible> {
//! let any_answer = classify_fn(|_: Result<&u32, &Infallible>, _: &CallContext| Verdict::Success);
//! let service = ServiceBuilder::new()
//!     .layer(HedgeLayer::new(any_answer, HedgePolicy::new(3, Duration::from_millis(20))))
//!     .service_fn(|call: Call<()>| async move {
//!         let attempt = call.context().map_or(0, CallContext::attempt);
//!         // The first attempt hangs; the second responds.
//!         if attempt == 1 { std::future::pending::<()>().await }
//!         Ok(attempt)
//!     });
//! let mut read = Call::new(());
//! read.context_mut().set_idempotency(Idempotency::Idempotent);
//! assert_eq!(service.oneshot(read).await?, 2);
//! # Ok(()) }
//! ```

mod first;
mod future;
mod hedging;
mod layer;
mod send;
mod settle;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use reattempt_core::machine::Env;
use reattempt_core::{
    Annotated, AttemptKind, CallContext, Classify, Idempotency, NextAttempt, Observer, Recovery,
    Replay,
};
use tower_service::Service;

use crate::order::OneWarning;
use first::Start;
pub use future::HedgeFuture;
pub use layer::HedgeLayer;
#[doc(no_inline)]
pub use reattempt_core::policy::{Fixed, HedgeDelay, HedgePolicy};

/// The layer's configuration, shared by all its services.
struct Config<C> {
    classifier: C,
    policy: Option<Arc<HedgePolicy>>,
    transparent: bool,
    observer: Arc<dyn Observer>,
    /// Whether the observer wants events of sent attempts and of calls that succeed at once.
    hears: bool,
    no_retry_layer: OneWarning,
    no_deadline_layer: OneWarning,
    no_attempt_deadline: OneWarning,
}

impl<C> Config<C> {
    fn env<'a>(&'a self, context: &'a CallContext, replayable: bool) -> Env<'a> {
        let mut env = Env::new(context);
        env.replayable = replayable;
        env.transparent = self.transparent;
        env.observer = Some(&*self.observer);
        env
    }

    /// The policy with which this layer acts on the call, if it does.
    #[inline(always)]
    fn policy(&self, context: &CallContext) -> Option<Arc<HedgePolicy>> {
        if context.has_policy() {
            self.policy_of(context)
        } else {
            self.policy.clone()
        }
    }

    #[inline(never)]
    fn policy_of(&self, context: &CallContext) -> Option<Arc<HedgePolicy>> {
        if context.strategy().is_some() {
            // The caller set a retry strategy for this call.
            return None;
        }
        match context.policy().map(|policy| policy.get_recovery()) {
            Some(Recovery::Hedge(policy)) => Some(Arc::clone(policy)),
            Some(Recovery::None | Recovery::Retry(_)) => None,
            Some(Recovery::Default) | None => self.policy.clone(),
        }
    }
}

/// Hedges calls. Made by [`HedgeLayer`].
pub struct Hedge<S, C> {
    inner: S,
    config: Arc<Config<C>>,
}

impl<S: Clone, C> Clone for Hedge<S, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            config: Arc::clone(&self.config),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Hedge<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge")
            .field("inner", &self.inner)
            .field("policy", &self.config.policy)
            .finish_non_exhaustive()
    }
}

impl<S, C, Req> Service<Req> for Hedge<S, C>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = HedgeFuture<S, C, Req>;

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
        let Some(policy) = self.config.policy(context) else {
            context.begin();
            let context = context.clone();
            return self.pass(request, Some(context));
        };
        if natural != Idempotency::Unknown && context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(natural);
        }
        if context.has_policy() {
            let warning = &self.config.no_deadline_layer;
            warning.warn_if_unlimited("HedgeLayer", context);
        }
        context.claim_first();
        let context = std::mem::take(context);
        if self.config.hears {
            self.config.observer.attempt_sent(&context);
        }
        let copy = if self.config.classifier.may_force() || policy.max_attempts() > 1 {
            request.replay(&FIRST)
        } else {
            None
        };
        let (future, source) = match copy {
            Some(mut copy) => {
                *copy.context_mut() = context.clone();
                let future = self.inner.call(copy);
                (future, Some((request, self.inner.clone())))
            }
            None => {
                *request.context_mut() = context.clone();
                (self.inner.call(request), None)
            }
        };
        HedgeFuture {
            first: Some(future),
            context: Some(context),
            start: Some(Start { policy, source }),
            config: Arc::clone(&self.config),
            hedging: None,
        }
    }
}

const FIRST: NextAttempt<'static> = NextAttempt {
    number: 1,
    kind: AttemptKind::Initial,
    after: None,
};

impl<S, C> Hedge<S, C> {
    #[cold]
    #[inline(never)]
    fn pass<Req>(&mut self, request: Req, context: Option<CallContext>) -> HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
    {
        HedgeFuture {
            first: Some(self.inner.call(request)),
            context,
            start: None,
            config: Arc::clone(&self.config),
            hedging: None,
        }
    }
}
