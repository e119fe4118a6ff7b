//! `HedgeLayer`: sends further attempts before one has failed (A6, Hedging Policy).
//!
//! The first attempt is sent at once, further ones after the policy's delay; the first result that
//! is not a failure wins and the others are dropped at once. Only idempotent calls are hedged,
//! unless the policy allows others
//! ([`HedgePolicy::hedge_non_idempotent`](crate::HedgePolicy::hedge_non_idempotent)). The
//! throttle is asked when a hedge is due. A hedge's failure never ends the call while another
//! attempt can succeed, unless it is fatal and the hedge was sent: a fatal one in the stage
//! [`Stage::Dispatch`](crate::Stage::Dispatch) only ends the hedging.
//!
//! The delay is fixed, or learned from how long attempts take: [`ExtraLoad`], [`Percentile`], or a
//! [`HedgeDelay`] of your own. No clock is read for a call that succeeds at once.
//!
//! In a stack with a `RetryLayer` the route's policy decides which of the two acts.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::{
//!     Call, CallContext, HasCallContext, HedgeLayer, HedgePolicy, Idempotency, Verdict,
//!     classify_fn,
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

mod abandoned;
mod attempts;
mod future;
mod hedging;
mod layer;
mod send;
mod settle;
#[cfg(test)]
mod tests;
mod unclaimed;

use std::fmt;
use std::marker::PhantomPinned;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{CallContext, Classify, HasCallContext, Idempotency, Recovery, Replay};
use tower_service::Service;

#[doc(no_inline)]
pub use crate::policy::{ExtraLoad, Fixed, HedgeDelay, HedgePolicy, Percentile};
use crate::recovery::{FIRST, Settings, Source, with_context};
pub use future::HedgeFuture;
use future::State;
use hedging::Beside;
pub use layer::HedgeLayer;
pub use unclaimed::{HedgeUnclaimed, HedgeUnclaimedFuture, HedgeUnclaimedLayer};

/// The layer's configuration, shared by all its services.
struct Config<C> {
    policy: Option<Arc<HedgePolicy>>,
    settings: Settings<C>,
}

impl<C> Config<C> {
    /// The policy with which this layer acts on the call, if it does.
    #[inline]
    fn policy(&self, context: &CallContext) -> Option<Arc<HedgePolicy>> {
        if context.has_policy() {
            self.policy_of(context)
        } else {
            self.policy.clone()
        }
    }

    /// Warns if this layer's own policy is for this call, on which another layer acts.
    #[cold]
    fn if_never_hedges(&self, context: &CallContext) {
        let is_own = |own: &Arc<HedgePolicy>| {
            let of_call = self.policy(context);
            of_call.is_some_and(|policy| Arc::ptr_eq(own, &policy))
        };
        if context.is_claimed() && self.policy.as_ref().is_some_and(is_own) {
            self.settings.warnings.never_hedges();
        }
    }

    #[inline(never)]
    fn policy_of(&self, context: &CallContext) -> Option<Arc<HedgePolicy>> {
        if context.strategy().is_some() {
            // The caller set a retry strategy for this call.
            return None;
        }
        match context.policy().map(|policy| policy.recovery()) {
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
    Req: HasCallContext + Replay,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = HedgeFuture<S, C, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let context = request.context_mut();
        if context.is_claimed() {
            return self.pass(request);
        }
        let Some(policy) = self.config.policy(context) else {
            context.pass_first();
            return self.pass(request);
        };
        if natural != Idempotency::Unknown && context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(natural);
        }
        if context.has_policy() {
            let warnings = &self.config.settings.warnings;
            warnings.if_timeout_ignored(context.deadline().is_some(), context.policy());
        }
        context.claim_first();
        if self.config.settings.sees_sent {
            self.config.settings.observer.attempt_sent(context);
        }
        let copy = if self.config.settings.classifier.may_force() || policy.max_attempts() > 1 {
            request.replay(&FIRST)
        } else {
            None
        };
        let (first, source) = match copy {
            Some(copy) => {
                let first = self.inner.call(with_context(copy, &mut request));
                // The instance that was ready has been called; its clones get ready for further
                // attempts.
                let service = self.inner.clone();
                (first, Source::Template { request, service })
            }
            None => {
                let context = request.context_mut().clone();
                context.describe(|| {
                    request
                        .subject()
                        .of_service(self.config.settings.service.as_ref())
                });
                let source = Source::Last(context);
                (self.inner.call(request), source)
            }
        };
        HedgeFuture {
            state: State::First {
                first: Some(first),
                policy,
                beside: Beside::Nothing,
            },
            source,
            config: Arc::clone(&self.config),
            pinned: PhantomPinned,
        }
    }
}

impl<S, C> Hedge<S, C> {
    /// Another layer acts, or has to.
    #[cold]
    #[inline(never)]
    fn pass<Req>(&mut self, mut request: Req) -> HedgeFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        let context = request.context_mut();
        self.config.if_never_hedges(context);
        let source = Source::Last(context.share());
        let future = self.inner.call(request);
        HedgeFuture {
            state: State::Passed { future },
            source,
            config: Arc::clone(&self.config),
            pinned: PhantomPinned,
        }
    }
}
