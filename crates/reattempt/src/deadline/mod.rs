//! `DeadlineLayer`: attaches the time limit of a call and enforces it.
//!
//! Above the recovery layer it bounds the whole call; below it, each attempt, where
//! [`AttemptDeadlineLayer`] is the name for it: it is the only per-attempt timeout. A response at
//! the instant of the deadline wins. An [`OnElapsed`] makes the outcome for the caller: by default
//! an error from [`Elapsed`], which holds attempts, reasons, and whether the request may have been
//! carried out.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::{Call, DeadlineLayer, Elapsed};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let service = ServiceBuilder::new()
//!     .layer(DeadlineLayer::new(Duration::from_millis(50)))
//!     .service_fn(|_: Call<()>| async { std::future::pending::<Result<(), BoxError>>().await });
//! let error = service.oneshot(Call::new(())).await.unwrap_err();
//! let elapsed = error.downcast::<Elapsed>()?;
//! assert_eq!(elapsed.limit, Some(Duration::from_millis(50)));
//! # Ok(()) }
//! ```

mod future;
mod layer;
#[cfg(test)]
mod tests;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::{
    CallContext, CallDeadline, DeadlineScope, Elapsed, HasCallContext, Idempotency, RoutePolicy,
    StackCheck,
};
use tower_service::Service;

use crate::clock;
use future::Armed;
pub use future::DeadlineFuture;
pub use layer::{AttemptDeadlineLayer, DeadlineLayer};

/// Makes the outcome for the caller when the deadline has passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot turn an elapsed deadline into `Result<{Res}, {Err}>`",
    note = "put `ClientErrorLayer` directly above the transport: its error type has room for `Elapsed`, and for the transport's own error",
    note = "or put `.map_err(BoxError::from)` between the DeadlineLayer and the layers below it; or implement `From<Elapsed>` for an error type of your own"
)]
pub trait OnElapsed<Res, Err> {
    /// The outcome that replaces the missing one.
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err>;

    /// True for an outcome that is not a response but may stem from another timer for the same
    /// deadline: if the deadline has passed when it arrives, [`on_elapsed`](Self::on_elapsed)
    /// replaces it. By default no outcome is.
    ///
    /// A server and a transport that know the deadline have timers of their own, which may fire
    /// first.
    fn is_echo(&self, outcome: Result<&Res, &Err>) -> bool {
        let _ = outcome;
        false
    }
}

/// Returns an error made from [`Elapsed`], or from [`Refused`](crate::admission::Refused).
#[derive(Clone, Copy, Debug, Default)]
pub struct AsError;

// A bound on the impl: the compiler then reports the missing conversion with the trait's message.
#[diagnostic::do_not_recommend]
impl<Res, Err: From<Elapsed>> OnElapsed<Res, Err> for AsError {
    fn on_elapsed(&self, elapsed: Elapsed) -> Result<Res, Err> {
        Err(Err::from(elapsed))
    }
}

/// Ends calls (or attempts) at their time limit. Made by [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct Deadline<S, M = AsError> {
    inner: S,
    timeout: Option<Duration>,
    /// Whether a policy's limit replaces `timeout` instead of shortening it.
    unless_policy: bool,
    on_elapsed: M,
    /// Of an [`AttemptDeadlineLayer`].
    inside_recovery: Option<StackCheck>,
}

impl<S, M, Req> Service<Req> for Deadline<S, M>
where
    S: Service<Req>,
    M: OnElapsed<S::Response, S::Error> + Clone,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future, M>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let armed = self.arm(request.context_mut(), natural);
        if armed.as_ref().is_some_and(|(_, armed)| armed.late) {
            // If it were sent now it could take effect although no caller waits for it.
            drop(request);
            return DeadlineFuture::too_late(armed, self.on_elapsed.clone());
        }
        DeadlineFuture::new(self.inner.call(request), armed, self.on_elapsed.clone())
    }
}

impl<S, M> Deadline<S, M> {
    /// Attaches the limit; `None` if there is nothing to enforce here.
    #[inline(always)]
    fn arm(&self, context: &mut CallContext, natural: Idempotency) -> Option<(Instant, Armed)> {
        let scope = if context.is_claimed() {
            DeadlineScope::Attempt
        } else {
            if let Some(check) = &self.inside_recovery {
                check.warn(
                    "AttemptDeadlineLayer",
                    "is outside of any recovery layer, so it bounds the whole call: \
                     put it below RetryLayer or HedgeLayer, or use DeadlineLayer",
                );
            }
            DeadlineScope::Call
        };
        let timeout = if context.has_policy() {
            if scope == DeadlineScope::Attempt {
                context.note_attempt_limit();
            }
            self.with_policy(context.policy().map(|policy| &**policy), scope)
        } else {
            self.timeout
        };
        let own = timeout.map(|timeout| clock::after(clock::now(), timeout));
        let (at, is_own, late) = match (own, context.limit()) {
            (Some(own), None) => (own, true, false),
            (own, outer) => between(own, outer)?,
        };
        context.enforce_limit(at);
        let idempotency = match context.idempotency() {
            Idempotency::Unknown => natural,
            said => said,
        };
        let armed = Armed {
            scope,
            limit: timeout.filter(|_| is_own),
            idempotent: idempotency.is_idempotent(),
            handle: context.begin(),
            late,
        };
        Some((at, armed))
    }

    #[inline(never)]
    fn with_policy(&self, policy: Option<&RoutePolicy>, scope: DeadlineScope) -> Option<Duration> {
        let of_policy = policy.and_then(|policy| match scope {
            DeadlineScope::Call => policy.timeout(),
            DeadlineScope::Attempt => policy.attempt_timeout(),
        });
        match (self.timeout, of_policy) {
            (Some(own), Some(policy)) if !self.unless_policy => Some(own.min(policy)),
            (own, policy) => policy.or(own),
        }
    }
}

/// The instant to enforce, from the layer's own limit and one that is already attached; whether it
/// is the layer's own, and whether it has passed. The layer's own never has, since it starts now.
#[inline(never)]
fn between(own: Option<Instant>, stamped: Option<CallDeadline>) -> Option<(Instant, bool, bool)> {
    let outer = match (own, stamped) {
        // An outer layer enforces an earlier limit: nothing to do here.
        (own, Some(outer)) if outer.enforced && own.is_none_or(|own| own >= outer.at) => {
            return None;
        }
        (Some(own), outer) if outer.is_none_or(|outer| own <= outer.at) => {
            return Some((own, true, false));
        }
        (_, outer) => outer?,
    };
    Some((outer.at, false, outer.passed(clock::now())))
}
