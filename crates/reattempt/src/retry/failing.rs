//! What a call needs once an attempt has failed.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::call::attempts::ConfigWaiter;
use crate::call::{Pool, SharedPool};
use crate::driver::RetryDriver;
use crate::machine::Wait;
use crate::timer::Timer;
use crate::{AttemptKind, CallContext, Failure};
use pin_project_lite::pin_project;

thread_local! {
    static SPARE: Pool<Pin<Box<Failing>>> = const { Pool::new(|| &SHARED) };
}

static SHARED: SharedPool<Pin<Box<Failing>>> = SharedPool::new(|_| ());

/// What happens before the next attempt.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Next {
    /// User code is asked what follows: only a panic of that code drops the call here.
    Settle,
    /// The delay runs.
    Wait,
    /// Other tasks run once, in place of a delay.
    Yield,
    /// The service gets ready.
    #[default]
    Ready,
    /// The same, and nothing was waited for.
    AtOnce,
    /// The deadline has passed, and no failure was kept: if no layer above ends the call when the
    /// timers of the deadline fire, the attempt is sent.
    Late,
    /// Nothing more is sent, and the end of the call is recorded: if no layer above ends it, it
    /// ends by itself.
    Expire,
}

pin_project! {
    /// Allocated with the first failure, and reused by a later call.
    #[derive(Default)]
    pub(super) struct Failing {
        pub(super) driver: RetryDriver,
        pub(super) next: Next,
        pub(super) kind: AttemptKind,
        // Of the attempt that failed last.
        pub(super) failure: Option<Failure>,
        #[pin]
        timer: Timer,
        waiter: Option<ConfigWaiter>,
    }
}

impl Failing {
    /// A reused one, or a new one.
    pub(super) fn take() -> Pin<Box<Self>> {
        let spare = SPARE.try_with(Pool::take).ok().flatten();
        spare.unwrap_or_else(|| Box::pin(Self::default()))
    }

    /// The call is over: a later one reuses the memory.
    pub(super) fn give_back(mut failing: Pin<Box<Self>>) {
        // Dropped here: a waiter is user code, which may drop another call.
        failing.set(Self::default());
        // A thread that is shutting down frees it.
        let _ = SPARE.try_with(|spare| spare.put(failing));
    }

    pub(super) fn driver(self: Pin<&mut Self>) -> &mut RetryDriver {
        self.project().driver
    }

    pub(super) fn failed(self: Pin<&mut Self>, failure: Option<&Failure>) {
        *self.project().failure = failure.copied();
    }

    pub(super) fn then(self: Pin<&mut Self>, next: Next) {
        *self.project().next = next;
    }

    pub(super) fn wait(self: Pin<&mut Self>, wait: &Wait) {
        let this = self.project();
        *this.kind = wait.kind;
        if !wait.nudge {
            *this.waiter = None;
        }
        if let Some(until) = wait.until {
            this.timer.set_to(until);
        }
    }

    /// The `Deadline` layer above is to end the call: until when it has time for that.
    pub(super) fn leave(self: Pin<&mut Self>, next: Next, until: Option<Instant>) {
        let this = self.project();
        (*this.waiter, *this.next) = (None, next);
        if let Some(until) = until {
            this.timer.set_to(until);
        }
    }

    /// True once a newer configuration moved what the call is about.
    fn poll_moved(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let waiter = self.project().waiter;
        let moved = waiter.as_mut().map(|waiter| waiter.as_mut().poll(cx));
        if let Some(Poll::Ready(_)) = moved {
            *waiter = None;
        }
        moved == Some(Poll::Ready(true))
    }

    /// Takes up the waiter of the attempt that failed. True if what the call is about has moved by
    /// now.
    #[cold]
    pub(super) fn has_moved(mut self: Pin<&mut Self>, context: &CallContext) -> bool {
        *self.as_mut().project().waiter = context.take_config_waiter();
        // No waker is needed: the waiter is polled again when the delay begins.
        self.poll_moved(&mut Context::from_waker(Waker::noop()))
    }

    /// Ready when the delay is over (false), or a newer configuration moved what the call is about
    /// (true).
    pub(super) fn poll_wait(
        mut self: Pin<&mut Self>,
        owner: usize,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        if self.as_mut().poll_moved(cx) {
            return Poll::Ready(true);
        }
        self.project().timer.poll(owner, cx).map(|()| false)
    }
}
