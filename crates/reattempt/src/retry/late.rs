//! What happens in place of an attempt that was waited for: the deadline has passed, or the service
//! is broken.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use crate::{Classify, HasCallContext, Replay, StopReason, Surface};
use tower_service::Service;

use super::future::{RetryFuture, StateProj};
use super::{Failing, Next};
use crate::poll::polled_after_completion;
use crate::recovery::{Outcome, past};
use crate::timer::MOST_LATE_POLLS;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// Nothing more is sent: the deadline ends the call.
    pub(super) fn expire(
        self: Pin<&mut Self>,
        surface: Surface,
        outcome: Outcome<S, Req>,
        held: Option<Outcome<S, Req>>,
    ) {
        let this = self.project();
        let StateProj::Between { failing, kept } = this.state.project() else {
            polled_after_completion("RetryFuture")
        };
        let deadline = this.source.context_mut().deadline();
        failing.leave(Next::Expire, deadline.map(past));
        this.source.shed();
        let held = held.filter(|_| surface == Surface::Held);
        *kept = Some(held.unwrap_or(outcome));
    }

    /// The deadline has passed before the next attempt could be sent. `is_enforced`: a layer above
    /// ends the call.
    pub(super) fn late(self: Pin<&mut Self>, is_enforced: bool) -> ControlFlow<Outcome<S, Req>> {
        let this = self.project();
        let StateProj::Between { failing, kept } = this.state.project() else {
            polled_after_completion("RetryFuture")
        };
        let context = &*this.source.context_mut();
        let effects = || this.config.settings.effects(context);
        match (is_enforced, kept.is_some()) {
            (true, false) => {
                // Its timers fire at the next tick of the clock.
                let tick = context.deadline().map(|deadline| deadline.at);
                failing.leave(Next::Late(MOST_LATE_POLLS), tick);
                ControlFlow::Continue(())
            }
            (true, true) => {
                effects().unsent(&mut failing.driver, StopReason::Deadline);
                let expired = context.deadline().map(past);
                failing.leave(Next::Expire, expired);
                this.source.shed();
                ControlFlow::Continue(())
            }
            (false, _) => {
                effects().unsent(&mut failing.driver, StopReason::Deadline);
                // The service may hold a permit for the attempt that is not sent.
                this.source.shed();
                kept.take()
                    .map_or(ControlFlow::Continue(()), ControlFlow::Break)
            }
        }
    }

    /// The deadline has passed: the call waits for the layer above to end it.
    pub(super) fn poll_late(
        self: Pin<&mut Self>,
        owner: usize,
        cx: &mut Context<'_>,
    ) -> Poll<ControlFlow<Outcome<S, Req>>> {
        let this = self.project();
        let StateProj::Between { failing, kept } = this.state.project() else {
            polled_after_completion("RetryFuture")
        };
        ready!(failing.poll_wait(owner, cx));
        if let Next::Late(polls) = failing.next {
            failing.next = polls.checked_sub(1).map_or(Next::AtOnce, Next::Late);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(kept) = kept.take() else {
            polled_after_completion("RetryFuture")
        };
        Poll::Ready(ControlFlow::Break(kept))
    }

    /// The service failed before it was ready again. The server's own failure is returned first.
    pub(super) fn broken(self: Pin<&mut Self>, error: S::Error) -> Outcome<S, Req> {
        let this = self.project();
        let StateProj::Between { failing, kept } = this.state.project() else {
            return Err(error);
        };
        let effects = this.config.settings.effects(this.source.context_mut());
        effects.unsent(&mut failing.driver, StopReason::Fatal);
        kept.take().unwrap_or(Err(error))
    }
}

impl Failing {
    /// The `Deadline` layer above is to end the call: until when it has time for that.
    pub(super) fn leave(&mut self, next: Next, until: Option<Instant>) {
        (self.waiter, self.next) = (None, next);
        if let Some(until) = until {
            self.timer.set_to(until);
        }
    }
}
