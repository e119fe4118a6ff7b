//! The delay before a hedge.

use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use crate::call::pool::Pool;
use crate::clock;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

thread_local! {
    static SPARE: Pool<Pin<Box<Waiting>>> = const { Pool::new() };
}

pin_project! {
    /// What a call needs once its first attempt was pending. Allocated with the first such call,
    /// and reused by a later one on the same thread.
    #[derive(Default)]
    pub(super) struct Waiting {
        // When the first attempt was first pending.
        began: Option<Instant>,
        // When the first hedge is due, if one is planned.
        first: Option<Instant>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Waiting {
    pub(super) fn new() -> Pin<Box<Self>> {
        let spare = SPARE.try_with(Pool::take).ok().flatten();
        spare.unwrap_or_else(|| Box::pin(Self::default()))
    }

    /// The call is over: a later one on this thread reuses the memory.
    pub(super) fn give_back(mut waiting: Pin<Box<Self>>) {
        let mut this = waiting.as_mut().project();
        (*this.began, *this.first) = (None, None);
        this.sleep.set(None);
        // A thread that is shutting down frees it.
        let _ = SPARE.try_with(|spare| spare.put(waiting));
    }

    /// The first attempt is pending from now on, and the first hedge this much later.
    pub(super) fn begin(self: Pin<&mut Self>, now: Instant, delay: Option<Duration>) {
        let this = self.project();
        *this.began = Some(now);
        *this.first = delay.map(|delay| clock::after(now, delay));
    }

    pub(super) const fn began(&self) -> Option<Instant> {
        self.began
    }

    pub(super) const fn first(&self) -> Option<Instant> {
        self.first
    }

    /// True when the first hedge is due.
    pub(super) fn poll_first(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        match self.first {
            None => false,
            Some(first) => {
                let mut sleep = self.project().sleep;
                if let Some(armed) = sleep.as_mut().as_pin_mut() {
                    return clock::poll_sleep(armed, cx).is_ready();
                }
                sleep.set(Some(tokio::time::sleep_until(first.into())));
                is_over(sleep, cx)
            }
        }
    }

    /// True when the instant has come.
    pub(super) fn poll(self: Pin<&mut Self>, at: Instant, cx: &mut Context<'_>) -> bool {
        let at = at.into();
        let mut sleep = self.project().sleep;
        match sleep.as_mut().as_pin_mut() {
            Some(armed) if armed.deadline() == at => {}
            Some(armed) => armed.reset(at),
            None => sleep.set(Some(tokio::time::sleep_until(at))),
        }
        is_over(sleep, cx)
    }
}

#[inline]
fn is_over(sleep: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> bool {
    sleep
        .as_pin_mut()
        .is_some_and(|sleep| clock::poll_sleep(sleep, cx).is_ready())
}
