//! What a call and its request's body know of each other.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use super::MessageTooLong;

#[derive(Debug, Default)]
struct State {
    too_long: Option<MessageTooLong>,
    over: bool,
    call: Option<Waker>,
    request: Option<Waker>,
}

/// The request's side.
#[derive(Clone, Debug, Default)]
pub(super) struct Link(Arc<Mutex<State>>);

impl Link {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A message is too long: the call is to end.
    pub(super) fn trip(&self, too_long: MessageTooLong) {
        let waker = self.with(|state| {
            state.too_long = Some(too_long);
            state.call.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// True once the call has ended before its answer did: nobody wants to hear more of the
    /// request.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> bool {
        self.with(|state| {
            state.request = Some(cx.waker().clone());
            state.over
        })
    }
}

/// The call's side: its future, then its answer's body. Dropped early it ends the request's body.
#[derive(Debug)]
pub(super) struct CallSide(Option<Link>);

impl CallSide {
    pub(super) const fn new(link: Link) -> Self {
        Self(Some(link))
    }

    /// What the request's body found.
    pub(super) fn poll_too_long(&self, cx: &Context<'_>) -> Option<MessageTooLong> {
        let link = self.0.as_ref()?;
        link.with(|state| {
            state.call = Some(cx.waker().clone());
            state.too_long
        })
    }

    /// The answer is at its end: the request's body is left to the transport.
    pub(super) fn done(&mut self) {
        self.0 = None;
    }
}

impl Drop for CallSide {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            let waker = link.with(|state| {
                state.over = true;
                state.request.take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
