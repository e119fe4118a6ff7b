//! `DeadlineLayer`: attaches the deadline of a call and enforces it.
//!
//! Above the recovery layer it bounds the whole call; below it, each attempt, where
//! [`AttemptDeadlineLayer`] is the name for it: it is the only per-attempt timeout. A response at
//! the instant of the deadline wins. An [`OnElapsed`] makes the outcome for the caller: by default
//! an error from [`Elapsed`](crate::Elapsed), which holds attempts, reasons, and whether the
//! request may have been carried out.
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
//! assert_eq!(elapsed.timeout, Some(Duration::from_millis(50)));
//! # Ok(()) }
//! ```

mod elapsed;
mod layer;
mod scope;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::{CallContext, CallHandle, DeadlineScope, HasCallContext, Idempotency, StackCheck};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::clock;
use crate::timer::{self, MOST_LATE_POLLS, Timer};
pub use elapsed::{AsError, OnElapsed};
pub use layer::{AttemptDeadlineLayer, DeadlineLayer};
use scope::between;

/// Ends calls (or attempts) at their deadline. Made by [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct Deadline<S, M = AsError> {
    inner: S,
    timeout: Option<Duration>,
    /// Whether a policy's timeout replaces `timeout` instead of shortening it.
    unless_policy: bool,
    on_elapsed: M,
    /// Of an [`AttemptDeadlineLayer`].
    of_attempts: bool,
    /// On for an [`AttemptDeadlineLayer`], until it is right.
    inside_recovery: StackCheck,
}

impl<S, M, Req> Service<Req> for Deadline<S, M>
where
    S: Service<Req> + Clone,
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

    // The hints of this file: 3 % of a call that is pending through six layers.
    #[inline(always)]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let natural = request.natural_idempotency();
        let armed = self.arm(request.context_mut(), natural);
        if armed.as_ref().is_some_and(|(_, armed)| armed.late) {
            // If it were sent now it could take effect although no caller waits for it. The service
            // that got ready may hold a permit for this call.
            drop(request);
            self.inner = self.inner.clone();
            return DeadlineFuture {
                inner: None,
                ends: Ends::Never,
                pinned: PhantomPinned,
                armed: armed.map(|(_, armed)| armed),
                on_elapsed: self.on_elapsed.clone(),
            };
        }
        let (at, armed) = armed.unzip();
        DeadlineFuture {
            inner: Some(self.inner.call(request)),
            ends: at.map_or(Ends::Never, Ends::At),
            pinned: PhantomPinned,
            armed,
            on_elapsed: self.on_elapsed.clone(),
        }
    }
}

impl<S, M> Deadline<S, M> {
    /// From now on calls have this timeout, or none of this layer's own: for a layer that knows the
    /// time of each request.
    #[inline]
    pub const fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Attaches the deadline; `None` if there is nothing to enforce here.
    #[inline(always)]
    fn arm(&mut self, context: &mut CallContext, natural: Idempotency) -> Option<(Instant, Armed)> {
        let (scope, timeout) = self.bounds(context);
        let own = timeout.map(|timeout| clock::after(clock::now(), timeout));
        let (at, is_own, late) = match (own, context.deadline()) {
            (Some(own), None) => (own, true, false),
            (own, outer) => between(own, outer)?,
        };
        context.enforce_deadline(at);
        let armed = Armed {
            scope,
            timeout: timeout.filter(|_| is_own),
            natural,
            handle: context.begin(),
            late,
        };
        Some((at, armed))
    }
}

/// When a deadline ends the call.
enum Ends {
    /// Its outcome is known, or there is no deadline.
    Never,
    /// At this instant, and no timer was needed yet.
    At(Instant),
    /// When this fires.
    Fires(Timer),
    /// With this poll, if the inner future is still pending. The instant had passed at this many
    /// polls before, but the task had used up tokio's budget: a response may have been there.
    Passed(u8),
}

/// A deadline that this layer enforces.
#[derive(Debug)]
struct Armed {
    scope: DeadlineScope,
    timeout: Option<Duration>,
    /// Of a call of which its caller says nothing.
    natural: Idempotency,
    handle: CallHandle,
    /// It had passed before anything was sent.
    late: bool,
}

pin_project! {
    /// The future of [`Deadline`]. The timer is armed only after the inner future is pending, and
    /// only if no timer that is a part of the inner future wakes the task by then.
    ///
    /// # Panics
    ///
    /// When it is polled after the deadline ended the call; after the call's own outcome, the inner
    /// future is polled again.
    pub struct DeadlineFuture<F, M> {
        // Dropped first: the state of the call is left to the next one by its last handle, and the
        // options that a layer below attached may be in the state that `inner` has.
        armed: Option<Armed>,
        #[pin]
        inner: Option<F>,
        on_elapsed: M,
        ends: Ends,
        // A `Deadline` above relies on timers below that cannot move (`timer.rs`).
        #[pin]
        pinned: PhantomPinned,
    }
}

impl<F, M, Res, Err> Future for DeadlineFuture<F, M>
where
    F: Future<Output = Result<Res, Err>>,
    M: OnElapsed<Res, Err>,
{
    type Output = Result<Res, Err>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            // Nothing was sent; or the future has already completed.
            return self.elapsed(cx);
        };
        timer::forget_armed();
        // The inner future is polled first: a response at the instant of the deadline wins.
        if let Poll::Ready(outcome) = inner.poll(cx) {
            if this.on_elapsed.is_echo(outcome.as_ref()) {
                return Poll::Ready(self.echo(outcome));
            }
            // Disarm: a poll after completion, against the contract, is for the inner future.
            // To drop the handle here would cost 14 instructions more.
            *this.ends = Ends::Never;
            return Poll::Ready(outcome);
        }
        self.elapsed(cx)
    }
}

impl<F, M> DeadlineFuture<F, M> {
    /// The inner future is pending, or nothing was sent: arms the timer, and ends the call when it
    /// fires.
    #[inline(never)]
    fn elapsed<Res, Err>(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Res, Err>>
    where
        M: OnElapsed<Res, Err>,
    {
        let this = self.as_mut().project();
        let sent = this.inner.is_some();
        if sent {
            if let Ends::At(at) = *this.ends {
                if timer::is_armed(at, cx, &*this.inner) {
                    // A timer below wakes this task, and it is looked at again.
                    return Poll::Pending;
                }
                *this.ends = Ends::Fires(Timer::at(at));
            }
            match this.ends {
                Ends::Fires(timer) => {
                    ready!(timer.poll_of(timer::address(&*this.inner), cx));
                    if timer::budget_is_used_up(cx) {
                        *this.ends = Ends::Passed(1);
                        return Poll::Pending;
                    }
                }
                Ends::Passed(polls) if *polls < MOST_LATE_POLLS && timer::budget_is_used_up(cx) => {
                    *polls += 1;
                    return Poll::Pending;
                }
                Ends::Passed(_) => {}
                Ends::Never | Ends::At(_) => return Poll::Pending,
            }
        }
        Poll::Ready(self.ended(sent))
    }
}
