//! `RetryLayer`: sends a call again after a failure that a retry may fix.
//!
//! The layer settles each attempt: the classifier is called once, the throttle counts the result,
//! the strategy decides, and pushback, throttle, deadline and idempotency are checked. Response and
//! error of the inner service are returned unchanged: if no further attempt is made, the caller
//! gets the server's own failure.
//!
//! ```
//! use std::convert::Infallible;
//! use reattempt::retry::RetryLayer;
//! use reattempt::strategy::BestEffort;
//! use reattempt::{
//!     Call, CallContext, Failure, RetryInfo, Stage, Verdict, classify_fn, reason,
//! };
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Infallible> {
//! // Classifies the protocol's own status.
//! let classifier = classify_fn(|outcome: Result<&u16, &Infallible>, _: &CallContext| {
//!     match outcome {
//!         Ok(0x00) => Verdict::Success,
//!         Ok(0x86) => Verdict::Retry(Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response)),
//!         // Not found: the server's answer.
//!         Ok(0x01) => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response)),
//!         _ => Verdict::Fatal(Failure::new(reason::UNKNOWN, Stage::Response).server_failed(true)),
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
//! let handle = RetryInfo::track(&mut request);
//! assert_eq!(service.oneshot(request).await?, 0x00);
//! assert_eq!(handle.info().attempts(), 3);
//! assert!(handle.info().reasons().eq([reason::KV_TEMPORARY_FAILURE]));
//! # Ok(()) }
//! ```

mod abandoned;
mod attempt;
mod by_policy;
mod deferred;
mod future;
mod kept;
mod late;
mod layer;
mod moved;
mod observed;
mod spare;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::call::state::ConfigWaiter;
use crate::driver::RetryDriver;
use crate::machine::Wait;
use crate::recovery::{FIRST, Settings, Source, with_context};
use crate::timer::Timer;
use crate::{
    AttemptKind, CallContext, Classify, Failure, HasCallContext, Idempotency, Replay, RetryStrategy,
};
use tower_service::Service;

pub use future::RetryFuture;
use future::Sent;
pub use layer::RetryLayer;

/// The layer's configuration, shared by all its services.
struct Config<C> {
    strategy: Arc<dyn RetryStrategy>,
    /// For policies without recovery.
    no_recovery: &'static dyn RetryStrategy,
    /// The layer's strategy allowed a second attempt when the layer was built: it is not asked
    /// again. If it allows none by now, a copy of the request was made in vain.
    may_follow: bool,
    settings: Settings<C>,
}

/// Retries calls. Made by [`RetryLayer`].
pub struct Retry<S, C> {
    inner: S,
    config: Arc<Config<C>>,
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

    // The hints of this file: 70 % of the row `retry`, 9 % of `stack`.
    #[inline(always)]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let first = self
            .config
            .take_up::<S::Response, S::Error>(request.context_mut(), natural);
        let sent = Sent::first(first);
        if let First::Sent {
            may_follow: true, ..
        } = first
        {
            if let Some(copy) = request.replay(&FIRST) {
                let future = self.inner.call(with_context(copy, &mut request));
                // The ready instance has been called; its clone is used for further attempts.
                let service = self.inner.clone();
                let source = Source::Template { request, service };
                return RetryFuture::in_flight(future, sent, source, Arc::clone(&self.config));
            }
        }
        let (future, context) = self.call_moved(request, first);
        let source = Source::Last(context);
        RetryFuture::in_flight(future, sent, source, Arc::clone(&self.config))
    }
}

/// How the layer handles a call's first attempt.
#[derive(Clone, Copy)]
enum First {
    /// A recovery layer above acts.
    Claimed,
    /// A recovery layer below has to act: the policy hedges.
    Left,
    /// This layer sends it.
    Sent {
        /// Whether another attempt could follow.
        may_follow: bool,
        /// The policy limits each attempt, which a layer below has to do.
        limited: bool,
    },
}

impl<C> Config<C> {
    /// Claims the call and starts its first attempt, if this layer is to act on it.
    #[inline(always)]
    fn take_up<Res, Err>(&self, context: &mut CallContext, natural: Idempotency) -> First
    where
        C: Classify<Res, Err>,
    {
        if context.is_claimed() {
            return First::Claimed;
        }
        if self.may_follow && !self.settings.sees_sent && !context.has_policy() {
            claim(context, natural);
            return First::Sent {
                may_follow: true,
                limited: false,
            };
        }
        let may_force = self.settings.classifier.may_force();
        let has_deadline = context.deadline().is_some();
        let first = self.first(
            context.policy(),
            context.strategy(),
            has_deadline,
            may_force,
        );
        if matches!(first, First::Left) {
            return First::Left;
        }
        claim(context, natural);
        if self.settings.sees_sent {
            self.sent(context.clone());
        }
        first
    }

    /// The strategy of a call that this layer has claimed.
    fn strategy<'a>(&'a self, context: &'a CallContext) -> &'a dyn RetryStrategy {
        self.choose(context.policy(), context.strategy())
            .unwrap_or_else(|| &*self.strategy)
    }
}

/// The layer acts on the call. `natural` is what the request says of itself.
#[inline(always)]
fn claim(context: &mut CallContext, natural: Idempotency) {
    if natural != Idempotency::Unknown && context.idempotency() == Idempotency::Unknown {
        context.set_idempotency(natural);
    }
    context.claim_first();
}

/// What happens before the next attempt.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Next {
    /// User code is asked what follows, or finishes its decision. Without a decision that it
    /// finishes, only a panic of it drops the call here, or in the next.
    Settle,
    /// The attempt is sent.
    Send,
    /// The delay runs.
    Wait,
    /// Other tasks run once, in place of a delay.
    Yield,
    /// The service gets ready.
    #[default]
    Ready,
    /// The same, and nothing was waited for.
    AtOnce,
    /// The deadline has passed, and a layer above is to end the call. Otherwise it returns the
    /// failure that was kept; without one, the attempt is sent after as many polls.
    Late(u8),
}

/// Allocated with the first failure, and reused by a later call.
#[derive(Default)]
struct Failing {
    driver: RetryDriver,
    next: Next,
    kind: AttemptKind,
    /// Of the attempt that failed last.
    failure: Option<Failure>,
    timer: Timer,
    waiter: Option<ConfigWaiter>,
}

impl Failing {
    fn wait(&mut self, wait: &Wait) {
        self.kind = wait.kind;
        if !wait.nudge {
            self.waiter = None;
        }
        if let Some(until) = wait.until {
            self.timer.set_to(until);
        }
    }

    /// Ready when the delay is over (false), or a newer configuration moved what the call is about
    /// (true).
    fn poll_wait(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<bool> {
        if self.poll_moved(cx) {
            return Poll::Ready(true);
        }
        ready!(self.timer.poll_of(owner, cx));
        // No one polls it from here on, and it may hold what the next attempt needs.
        self.waiter = None;
        Poll::Ready(false)
    }
}
