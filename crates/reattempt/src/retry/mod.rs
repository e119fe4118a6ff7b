//! `RetryLayer`: sends a call again after a failure that a retry may fix.
//!
//! The layer settles each attempt: the classifier is called once, the throttle counts the result,
//! the strategy decides, and pushback, throttle, deadline and idempotency are checked. Response and
//! error of the inner service are returned unchanged: if no further attempt is made, the caller
//! gets the server's own failure.
//!
//! ```
//! use reattempt::retry::RetryLayer;
//! use reattempt::strategy::BestEffort;
//! use reattempt::{
//!     Call, CallContext, Failure, RetryInfo, Stage, Verdict, classify_fn, reason,
//! };
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! // Classifies the protocol's own status.
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
//! let watch = RetryInfo::track(&mut request);
//! assert_eq!(service.oneshot(request).await?, 0x00);
//! assert_eq!(watch.info().attempts(), 3);
//! assert!(watch.info().reasons().eq([reason::KV_TEMPORARY_FAILURE]));
//! # Ok(()) }
//! ```

mod failing;
mod future;
mod layer;
mod send;
mod settle;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::driver::Effects;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{MaxAttempts, NeverRetry};
use crate::{
    AttemptKind, CallContext, Classify, HasCallContext, Idempotency, NextAttempt, Observer,
    OnDeadline, Recovery, Replay, RetryStrategy, RoutePolicy, StackCheck, Verdict,
};
use tower_service::Service;

pub use future::RetryFuture;
use future::{Sent, State};
pub use layer::RetryLayer;
pub(crate) use source::{Source, with_context};

/// The layer's configuration, shared by all its services.
struct Config<C> {
    classifier: C,
    strategy: Arc<dyn RetryStrategy>,
    /// For policies without recovery.
    no_recovery: &'static dyn RetryStrategy,
    transparent: bool,
    observer: Arc<dyn Observer>,
    /// For the log.
    service: Option<&'static str>,
    /// Whether the observer wants events of first attempts that are sent.
    sees_sent: bool,
    /// The observer without the log, which wants nothing of calls that succeed at once.
    of_success: Option<Arc<dyn Observer>>,
    /// The observer wants no events of sends, and the layer's strategy allowed a second attempt
    /// when the layer was built: few calls have another strategy.
    is_simple: bool,
    no_hedge_layer: StackCheck,
    no_deadline_layer: StackCheck,
    no_attempt_deadline: StackCheck,
    no_outcome_layer: StackCheck,
    unknown_error: StackCheck,
}

impl<C> Config<C> {
    /// The caller's strategy beats the policy's, the policy's beats the layer's.
    #[inline(always)]
    fn strategy<'a>(&'a self, context: &'a CallContext) -> &'a dyn RetryStrategy {
        if let Some(strategy) = context.strategy() {
            return &**strategy;
        }
        match context.policy().map(|policy| policy.recovery()) {
            Some(Recovery::Retry(strategy)) => &**strategy,
            Some(Recovery::None) => self.no_recovery,
            Some(Recovery::Default | Recovery::Hedge(_)) | None => &*self.strategy,
        }
    }

    /// The verdict on an attempt of this layer.
    #[inline(always)]
    fn classify<Res, Err>(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict
    where
        C: Classify<Res, Err>,
    {
        let verdict = self.classifier.classify(outcome, context);
        self.no_outcome_layer
            .warn_if_unfollowed("RetryLayer", &verdict, context);
        verdict
    }

    /// For a call that this layer passed through, and that no other recovery layer took up.
    #[cold]
    fn warn_no_hedge_layer(&self) {
        self.no_hedge_layer.warn(
            "RetryLayer",
            "got a policy that hedges, but no HedgeLayer stands below or above it",
        );
    }

    fn effects<'a>(&'a self, context: &'a CallContext) -> Effects<'a> {
        Effects {
            context,
            transparent: self.transparent,
            observer: Some(&*self.observer),
        }
    }
}

/// Retries nothing. The policy does not say what becomes of a transparent retry that does not fit
/// before the deadline: the call waits for it, unless the layer's strategy gives up explicitly.
fn no_recovery(layer: &dyn RetryStrategy) -> &'static dyn RetryStrategy {
    static GIVES_UP: MaxAttempts =
        MaxAttempts::new(1, Backoff::constant(Duration::ZERO)).on_deadline(OnDeadline::GiveUp);
    match layer.on_deadline() {
        Some(OnDeadline::GiveUp) => &GIVES_UP,
        Some(OnDeadline::Cap) | None => &NeverRetry,
    }
}

#[inline(never)]
fn may_follow(strategy: &dyn RetryStrategy) -> bool {
    strategy.max_attempts().is_none_or(|max| max > 1)
}

/// Retries calls. Made by [`RetryLayer`].
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
    Req: HasCallContext + Replay,
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
        let part = self
            .config
            .take_up::<S::Response, S::Error>(request.context_mut(), natural);
        if let Part::Act {
            may_follow: true,
            observed,
        } = part
        {
            if let Some(copy) = request.replay(&FIRST) {
                let future = self.inner.call(with_context(copy, &mut request));
                // The ready instance has been called; its clone is used for further attempts.
                let service = self.inner.clone();
                return RetryFuture {
                    state: State::InFlight {
                        future: Some(future),
                        sent: if observed {
                            Sent::Observed
                        } else {
                            Sent::First
                        },
                    },
                    source: Source::Template { request, service },
                    config: Arc::clone(&self.config),
                };
            }
        }
        self.call_moved(request, part)
    }
}

/// How the layer handles a call.
#[derive(Clone, Copy)]
enum Part {
    /// A recovery layer above acts.
    Claimed,
    /// A recovery layer below has to act: the policy hedges.
    Other,
    /// This layer acts.
    Act {
        /// Whether another attempt could follow the first.
        may_follow: bool,
        /// The first attempt's success is looked at too.
        observed: bool,
    },
}

const FIRST: NextAttempt<'static> = NextAttempt {
    number: 1,
    kind: AttemptKind::Initial,
    after: None,
};

impl<S, C> Retry<S, C> {
    /// This layer sends no attempt after the first one, or does not act: the request itself is
    /// sent.
    #[cold]
    #[inline(never)]
    fn call_moved<Req>(&mut self, mut request: Req, part: Part) -> RetryFuture<S, C, Req>
    where
        S: Service<Req>,
        Req: HasCallContext,
    {
        let context = request.context_mut();
        if matches!(part, Part::Other) {
            context.pass_first();
        }
        let context = context.share();
        if matches!(part, Part::Act { .. }) {
            context.describe(|| request.subject().of_service(self.config.service));
        }
        let source = Source::Last(context);
        let future = self.inner.call(request);
        RetryFuture {
            state: State::InFlight {
                future: Some(future),
                sent: match part {
                    Part::Claimed | Part::Other => Sent::Passed,
                    Part::Act { .. } => Sent::Observed,
                },
            },
            source,
            config: Arc::clone(&self.config),
        }
    }
}

impl<C> Config<C> {
    /// Claims the call and starts its first attempt, if this layer is to act on it.
    #[inline(always)]
    fn take_up<Res, Err>(&self, context: &mut CallContext, natural: Idempotency) -> Part
    where
        C: Classify<Res, Err>,
    {
        if context.is_claimed() {
            return Part::Claimed;
        }
        let plain = !context.has_policy();
        if !plain
            && self.leaves_to_others(
                context.policy().map(|policy| &**policy),
                context.strategy().is_some(),
                context.limit().is_some(),
            )
        {
            return Part::Other;
        }
        if natural != Idempotency::Unknown && context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(natural);
        }
        context.claim_first();
        if plain && self.is_simple {
            return Part::Act {
                may_follow: true,
                observed: false,
            };
        }
        if self.sees_sent {
            self.sent(context.clone());
        }
        // A policy's limit of one attempt is enforced by a layer below: after the attempt it is
        // checked whether there is one.
        let limits_attempts = |policy: &Arc<RoutePolicy>| policy.attempt_timeout().is_some();
        let observed = context.policy().is_some_and(limits_attempts);
        let may_follow = self.classifier.may_force() || may_follow(self.strategy(context));
        Part::Act {
            may_follow,
            observed,
        }
    }

    fn check_attempt_limit(&self, context: &CallContext) {
        if context.has_policy() {
            self.no_attempt_deadline
                .warn_if_attempts_unlimited("RetryLayer", context);
        }
    }

    // By value: an address taken would keep every context in memory.
    #[inline(never)]
    fn sent(&self, context: CallContext) {
        self.observer.attempt_sent(&context);
    }

    /// True for a policy that hedges, unless the caller stamped a strategy for this one call.
    #[inline(never)]
    fn leaves_to_others(
        &self,
        policy: Option<&RoutePolicy>,
        has_strategy: bool,
        has_limit: bool,
    ) -> bool {
        let Some(policy) = policy else {
            return false;
        };
        let hedges = matches!(policy.recovery(), Recovery::Hedge(_));
        if hedges && !has_strategy {
            return true;
        }
        if !has_limit && policy.timeout().is_some() {
            self.no_deadline_layer.warn(
                "RetryLayer",
                "got a policy with a time limit for the call, but no DeadlineLayer stands above it",
            );
        }
        false
    }
}
