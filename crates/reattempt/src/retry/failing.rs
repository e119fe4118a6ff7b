//! What a call needs once an attempt has failed.

use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use crate::call::attempts::ConfigWaiter;
use crate::call::{Pool, SharedPool};
use crate::driver::RetryDriver;
use crate::machine::Wait;
use crate::timer::Timer;
use crate::{AttemptKind, CallContext, Failure};

thread_local! {
    static SPARE: Pool<Box<Failing>> = const { Pool::new(|| &SHARED) };
}

static SHARED: SharedPool<Box<Failing>> = SharedPool::new(|_| ());

/// What happens before the next attempt.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Next {
    /// User code is asked what follows: only a panic of it drops the call here, or in the next.
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
    /// The deadline has passed, and no failure was kept: if no layer above ends the call when the
    /// timers of the deadline fire, the attempt is sent.
    Late,
    /// Nothing more is sent, and the end of the call is recorded: if no layer above ends it, it
    /// ends by itself.
    Expire,
}

/// Allocated with the first failure, and reused by a later call.
#[derive(Default)]
pub(super) struct Failing {
    pub(super) driver: RetryDriver,
    pub(super) next: Next,
    pub(super) kind: AttemptKind,
    /// Of the attempt that failed last.
    pub(super) failure: Option<Failure>,
    timer: Timer,
    waiter: Option<ConfigWaiter>,
}

impl Failing {
    /// A reused one, or a new one.
    pub(super) fn take() -> Box<Self> {
        let spare = SPARE.try_with(Pool::take).ok().flatten();
        spare.unwrap_or_default()
    }

    /// The call is over: a later one reuses the memory.
    pub(super) fn give_back(mut failing: Box<Self>) {
        // Dropped here: a waiter is user code, which may drop another call.
        *failing = Self::default();
        // A thread that is shutting down frees it.
        let _ = SPARE.try_with(|spare| spare.put(failing));
    }

    pub(super) fn wait(&mut self, wait: &Wait) {
        self.kind = wait.kind;
        if !wait.nudge {
            self.waiter = None;
        }
        if let Some(until) = wait.until {
            self.timer.set_to(until);
        }
    }

    /// The `Deadline` layer above is to end the call: until when it has time for that.
    pub(super) fn leave(&mut self, next: Next, until: Option<Instant>) {
        (self.waiter, self.next) = (None, next);
        if let Some(until) = until {
            self.timer.set_to(until);
        }
    }

    /// True once a newer configuration moved what the call is about.
    fn poll_moved(&mut self, cx: &mut Context<'_>) -> bool {
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

    /// Ready when the delay is over (false), or a newer configuration moved what the call is about
    /// (true).
    pub(super) fn poll_wait(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<bool> {
        if self.poll_moved(cx) {
            return Poll::Ready(true);
        }
        ready!(self.timer.poll_of(owner, cx));
        // No one polls it from here on, and it may hold what the next attempt needs.
        self.waiter = None;
        Poll::Ready(false)
    }

    /// Polls the waiter while a strategy decides, which may need what the waiter holds.
    pub(super) fn poll_beside(&mut self, cx: &mut Context<'_>) {
        if self.poll_moved(cx) {
            self.waiter = Some(Box::pin(std::future::ready(true)));
        }
    }
}
