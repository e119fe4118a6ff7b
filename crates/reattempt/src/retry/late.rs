//! What happens in place of an attempt that was waited for: the deadline has passed, or the service
//! is broken.

use std::task::{Context, Poll, ready};

use crate::{Classify, HasCallContext, Replay, StopReason};
use tower_service::Service;

use super::Next;
use super::attempt::Between;
use super::kept::Kept;
use crate::recovery::{Outcome, past};
use crate::timer::MOST_LATE_POLLS;

impl<S, C, Req> Between<'_, S, C, Req>
where
    S: Service<Req>,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// Nothing more is sent, and the end of the call is recorded. The layer above ends the call, or
    /// it ends by itself with this outcome.
    pub(super) fn expire(&mut self, outcome: Outcome<S, Req>) {
        *self.kept = Some(Kept::Failure(outcome));
        self.leave();
    }

    /// The deadline has passed before the next attempt could be sent, and a layer above ends the
    /// call.
    pub(super) fn late(&mut self) {
        if self.kept.is_some() {
            self.unsent(StopReason::Deadline);
        }
        self.leave();
    }

    /// The layer above is to end the call: until when it has time for that.
    fn leave(&mut self) {
        let deadline = self.source.context_mut().deadline();
        let until = if self.kept.is_some() {
            self.source.shed();
            deadline.map(past)
        } else {
            // Its timers fire at the next tick of the clock.
            deadline.map(|deadline| deadline.at)
        };
        self.failing.waiter = None;
        self.failing.next = Next::Late(MOST_LATE_POLLS);
        if let Some(until) = until {
            self.failing.timer.set_to(until);
        }
    }

    /// The deadline has passed: the call waits for the layer above to end it.
    pub(super) fn poll_late(
        &mut self,
        polls: u8,
        owner: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<S, Req>> {
        ready!(self.failing.poll_wait(owner, cx));
        if let Some(kept) = self.kept.take().and_then(Kept::failure) {
            return Poll::Ready(kept);
        }
        self.failing.next = polls.checked_sub(1).map_or(Next::AtOnce, Next::Late);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The service failed before it was ready again. The server's own failure is returned first.
    pub(super) fn broken(&mut self, error: S::Error) -> Outcome<S, Req> {
        self.unsent(StopReason::Fatal);
        self.kept
            .take()
            .and_then(Kept::failure)
            .unwrap_or(Err(error))
    }
}
