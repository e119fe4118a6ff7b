//! The delay before a hedge.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::call::{Pool, SharedPool};
use crate::timer::Timer;
use pin_project_lite::pin_project;

thread_local! {
    static SPARE: Pool<Pin<Box<Waiting>>> = const { Pool::new(|| &SHARED) };
}

static SHARED: SharedPool<Pin<Box<Waiting>>> = SharedPool::new(|_| ());

pin_project! {
    /// What a call needs once its first attempt was pending. Allocated with the first such call,
    /// and reused by a later one.
    pub(super) struct Waiting {
        // When the first attempt was first pending.
        began: Instant,
        // When the first hedge is due, if one is planned.
        first: Option<Instant>,
        #[pin]
        timer: Timer,
    }
}

impl Waiting {
    /// The first attempt is pending from this instant on, and the first hedge is due at the other.
    pub(super) fn new(began: Instant, first: Option<Instant>) -> Pin<Box<Self>> {
        let spare = SPARE.try_with(Pool::take).ok().flatten();
        let Some(mut waiting) = spare else {
            return Box::pin(Self {
                began,
                first,
                timer: Timer::default(),
            });
        };
        let this = waiting.as_mut().project();
        (*this.began, *this.first) = (began, first);
        waiting
    }

    /// The call is over: a later one reuses the memory.
    pub(super) fn give_back(mut waiting: Pin<Box<Self>>) {
        waiting.as_mut().project().timer.set(Timer::default());
        // A thread that is shutting down frees it.
        let _ = SPARE.try_with(|spare| spare.put(waiting));
    }

    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    pub(super) const fn first(&self) -> Option<Instant> {
        self.first
    }

    /// True when the first hedge is due.
    pub(super) fn poll_first(mut self: Pin<&mut Self>, owner: usize, cx: &mut Context<'_>) -> bool {
        let Some(first) = self.first else {
            return false;
        };
        self.as_mut().set_to(first);
        self.poll(owner, cx).is_ready()
    }

    /// The timer is for this instant now.
    pub(super) fn set_to(self: Pin<&mut Self>, at: Instant) {
        self.project().timer.set_to(at);
    }

    /// Ready when the timer's instant has come.
    pub(super) fn poll(self: Pin<&mut Self>, owner: usize, cx: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(owner, cx)
    }
}
