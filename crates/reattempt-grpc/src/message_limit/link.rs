//! Shared state of a call and its request body.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use super::MessageTooLong;

#[derive(Debug, Default)]
struct State {
    too_long: Option<MessageTooLong>,
    over: bool,
    /// The response has ended: nothing takes a message that is too long any more.
    done: bool,
    call: Option<Waker>,
    request: Option<Waker>,
}

/// The request body's side.
#[derive(Clone, Debug, Default)]
pub(super) struct Link(Arc<Mutex<State>>);

impl Link {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A message is too long: ends the call.
    pub(super) fn trip(&self, too_long: MessageTooLong) {
        let waker = self.with(|state| {
            state.too_long = Some(too_long);
            state.over |= state.done;
            state.call.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// True once the call ended before its response did: the rest of the request is not needed.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> bool {
        self.with(|state| {
            state.request = Some(cx.waker().clone());
            state.over
        })
    }
}

/// The call's side: held by its future, then by its response body. If it is dropped early, the
/// request body ends.
#[derive(Debug)]
pub(super) struct CallSide(Option<Link>);

impl CallSide {
    pub(super) const fn new(link: Link) -> Self {
        Self(Some(link))
    }

    /// Ready once the request body found a message that is too long.
    pub(super) fn poll_too_long(&self, cx: &Context<'_>) -> Option<MessageTooLong> {
        let link = self.0.as_ref()?;
        link.with(|state| {
            state.call = Some(cx.waker().clone());
            state.too_long
        })
    }

    /// The response has ended: the transport decides about the rest of the request body.
    pub(super) fn done(&mut self) {
        self.end(|state| {
            state.done = true;
            state.over |= state.too_long.is_some();
        });
    }

    fn end(&mut self, change: impl FnOnce(&mut State)) {
        if let Some(link) = self.0.take() {
            let waker = link.with(|state| {
                change(state);
                state.request.take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Drop for CallSide {
    fn drop(&mut self) {
        self.end(|state| state.over = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_limit::MessageSide;

    /// On two threads the response may end just before the call sees the message.
    #[test]
    fn a_message_that_no_call_takes_ends_its_request() {
        let cx = Context::from_waker(Waker::noop());
        for is_done_first in [true, false] {
            let link = Link::default();
            let mut call = CallSide::new(link.clone());
            let trip = || {
                link.trip(MessageTooLong {
                    side: MessageSide::Request,
                    bytes: 5,
                    limit: 3,
                });
            };
            if is_done_first {
                call.done();
                assert!(!link.poll_over(&cx), "the request goes on");
                trip();
            } else {
                trip();
                assert!(!link.poll_over(&cx), "the call ends first");
                call.done();
            }
            assert!(link.poll_over(&cx));
        }
    }
}
