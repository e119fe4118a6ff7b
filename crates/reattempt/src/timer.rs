//! A timer, and whether another one already wakes the task in time.
//!
//! A timer that is armed, polled and dropped costs some 500 instructions, and calls are often
//! pending in several layers that each have one: the deadline of the call, the deadline of the
//! attempt, the delay before the next attempt. All of them wake the same task. So an outer timer is
//! not armed while an inner one wakes the task no later.
//!
//! The outer future may rely on a timer only if nothing else can drop it, or poll it with another
//! waker, before the outer future is polled again. So the timer has to be a part of the outer
//! future: of memory that is pinned in it. What is in a box of another layer does not count,
//! because that layer may move the box to another task.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use pin_project_lite::pin_project;
use tokio::task::unconstrained;
use tokio::time::Sleep;

use crate::call::{Pool, SharedPool};

thread_local! {
    static SPARE: Pool<Pin<Box<Timer>>> = const { Pool::new(|| &SHARED) };

    /// What the timer that this thread polled last does, if it is still armed.
    static ARMED: Cell<Option<Wakes>> = const { Cell::new(None) };
}

static SHARED: SharedPool<Pin<Box<Timer>>> = SharedPool::new(|_| ());

/// An armed timer wakes this waker at this instant.
#[derive(Clone, Copy)]
struct Wakes {
    at: Instant,
    waker: (usize, usize),
    /// The address of the future that has the timer.
    owner: usize,
}

/// Tells wakers apart, as [`Waker::will_wake`] does.
fn identity(waker: &Waker) -> (usize, usize) {
    let vtable = std::ptr::from_ref(waker.vtable());
    (waker.data().addr(), vtable.addr())
}

/// Forgets timers that were polled before, so that [`is_armed`] knows only of those that are polled
/// from now on.
#[inline]
pub(crate) fn forget_armed() {
    ARMED.set(None);
}

/// True if the timer that was polled last wakes this task by the instant, and belongs to this
/// future, which the caller owns. A timer that was polled with another waker, or dropped, does not
/// count.
#[inline]
pub(crate) fn is_armed<F>(by: Instant, cx: &Context<'_>, future: &F) -> bool {
    let start = address(future);
    ARMED.get().is_some_and(|wakes| {
        wakes.at <= by
            && wakes.waker == identity(cx.waker())
            && (start..start + size_of::<F>()).contains(&wakes.owner)
    })
}

/// Where a pinned future is.
#[inline]
pub(crate) fn address<F>(future: &F) -> usize {
    std::ptr::from_ref(future).addr()
}

pin_project! {
    /// A timer, armed when it is polled.
    #[derive(Default)]
    pub(crate) struct Timer {
        #[pin]
        sleep: Option<Sleep>,
    }

    impl PinnedDrop for Timer {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            if this.sleep.is_some() {
                forget_armed();
            }
        }
    }
}

impl Timer {
    /// True once it was set.
    #[inline]
    pub(crate) const fn is_set(&self) -> bool {
        self.sleep.is_some()
    }

    /// From now on it is for this instant.
    #[inline]
    pub(crate) fn set_to(self: Pin<&mut Self>, at: Instant) {
        let at = at.into();
        let mut sleep = self.project().sleep;
        match sleep.as_mut().as_pin_mut() {
            Some(set) if set.deadline() == at => {}
            Some(set) if !set.is_elapsed() => set.reset(at),
            // One that has fired belongs to the runtime in which it did, and the future may have
            // moved to another one since.
            _ => sleep.set(Some(tokio::time::sleep_until(at))),
        }
    }

    /// Ready when its instant has come, at once if it has none. `owner` is the [`address`] of the
    /// future that has this timer, in itself or in a box of its own. Not subject to tokio's
    /// cooperative budget: the guarded future may use up the budget at every poll, and the timer
    /// would never be polled.
    #[inline]
    pub(crate) fn poll(self: Pin<&mut Self>, owner: usize, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut sleep) = self.project().sleep.as_pin_mut() else {
            return Poll::Ready(());
        };
        let polled = pin!(unconstrained(sleep.as_mut())).poll(cx);
        ARMED.set(polled.is_pending().then(|| Wakes {
            at: sleep.deadline().into_std(),
            waker: identity(cx.waker()),
            owner,
        }));
        polled
    }
}

/// A timer in memory of its own, which it takes when it is set, and which a later one reuses.
#[derive(Default)]
pub(crate) struct BoxedTimer(Option<Pin<Box<Timer>>>);

impl BoxedTimer {
    /// The instant that it is for, if it was set.
    pub(crate) fn at(&self) -> Option<Instant> {
        let sleep = self.0.as_ref()?.sleep.as_ref()?;
        Some(sleep.deadline().into_std())
    }

    /// As [`Timer::set_to`].
    pub(crate) fn set_to(&mut self, at: Instant) {
        let spare = || SPARE.try_with(Pool::take).ok().flatten();
        let timer = self
            .0
            .get_or_insert_with(|| spare().unwrap_or_else(|| Box::pin(Timer::default())));
        timer.as_mut().set_to(at);
    }

    /// As [`Timer::poll`].
    pub(crate) fn poll(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(timer) => timer.as_mut().poll(owner, cx),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for BoxedTimer {
    #[inline]
    fn drop(&mut self) {
        if let Some(timer) = self.0.take() {
            give_back(timer);
        }
    }
}

#[inline(never)]
fn give_back(mut timer: Pin<Box<Timer>>) {
    timer.set(Timer::default());
    // A thread that is shutting down frees it.
    let _ = SPARE.try_with(|spare| spare.put(timer));
}
