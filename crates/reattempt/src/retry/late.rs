//! What happens in place of an attempt that was waited for: the deadline has passed, or the service
//! is broken.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Instant;

use crate::{Classify, HasCallContext, Replay, StopReason};
use tower_service::Service;

use super::attempt::{Failing, Next};
use super::future::{Outcome, RetryFuture, State, StateOwned, StateProj};
use crate::poll::polled_after_completion;
use crate::recovery::past;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// Nothing more is sent: the deadline ends the call. `kept` is its failure if no layer above
    /// does.
    pub(super) fn expire(self: Pin<&mut Self>, kept: Outcome<S, Req>) {
        let mut this = self.project();
        let StateOwned::Between { mut failing, .. } =
            this.state.as_mut().project_replace(State::Done)
        else {
            polled_after_completion("RetryFuture")
        };
        let deadline = this.source.context_mut().deadline();
        failing.leave(deadline.map(past));
        this.source.shed();
        this.state.set(State::Expired { failing, kept });
    }

    /// The deadline has passed, and no layer above ended the call.
    pub(super) fn expired(self: Pin<&mut Self>) -> Outcome<S, Req> {
        match self.project().state.project_replace(State::Done) {
            StateOwned::Expired { failing, kept } => {
                Failing::give_back(failing);
                kept
            }
            _ => polled_after_completion("RetryFuture"),
        }
    }

    /// The deadline has passed before the next attempt could be sent. `is_enforced`: a layer above
    /// ends the call.
    pub(super) fn late(
        mut self: Pin<&mut Self>,
        is_enforced: bool,
    ) -> ControlFlow<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let StateProj::Between { failing, kept } = this.state.project() else {
            polled_after_completion("RetryFuture")
        };
        let context = &*this.source.context_mut();
        let effects = || this.config.settings.effects(context);
        match (is_enforced, kept.take()) {
            (true, None) => {
                // Its timers fire at the next tick of the clock.
                failing.next = Next::Late;
                failing.leave(context.deadline().map(|deadline| deadline.at));
                ControlFlow::Continue(())
            }
            (true, Some(kept)) => {
                effects().unsent(&mut failing.driver, StopReason::Deadline);
                self.expire(kept);
                ControlFlow::Continue(())
            }
            (false, kept) => {
                effects().unsent(&mut failing.driver, StopReason::Deadline);
                // The service may hold a permit for the attempt that is not sent.
                this.source.shed();
                kept.map_or(ControlFlow::Continue(()), ControlFlow::Break)
            }
        }
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
    pub(super) fn leave(&mut self, until: Option<Instant>) {
        self.waiter = None;
        if let Some(until) = until {
            self.timer.set_to(until);
        }
    }
}
