//! A newer configuration may move what the call is about, and end a delay early.

use std::task::{Context, Poll, Waker};

use super::Failing;
use crate::CallContext;

impl Failing {
    /// True once a newer configuration moved what the call is about.
    pub(super) fn poll_moved(&mut self, cx: &mut Context<'_>) -> bool {
        let waiter = self.waiter.as_mut();
        let moved = waiter.map(|waiter| waiter.as_mut().poll(cx));
        if let Some(Poll::Ready(_)) = moved {
            self.waiter = None;
        }
        moved == Some(Poll::Ready(true))
    }

    /// Takes up the waiter of the attempt that failed. True if what the call is about has moved by
    /// now.
    #[cold]
    pub(super) fn has_moved(&mut self, context: &CallContext) -> bool {
        self.waiter = context.take_config_waiter();
        // No waker is needed: the waiter is polled again when the delay begins.
        self.poll_moved(&mut Context::from_waker(Waker::noop()))
    }

    /// Polls the waiter while a strategy decides, which may need what the waiter holds.
    pub(super) fn poll_beside(&mut self, cx: &mut Context<'_>) {
        if self.poll_moved(cx) {
            self.waiter = Some(Box::pin(std::future::ready(true)));
        }
    }
}
