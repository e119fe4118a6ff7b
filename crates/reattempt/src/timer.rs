//! A timer, and whether another one already wakes the task in time.
//!
//! Calls are often pending in several layers that each have a timer: the deadline of the call, the
//! deadline of the attempt, the delay before the next attempt. All of them wake the same task. So
//! an outer timer is not armed while an inner one wakes the task no later.
//!
//! The outer future may rely on a timer only if nothing else can drop it, or poll it with another
//! waker, before the outer future is polled again. So the timer has to belong to a part of the
//! outer future: of memory that is pinned in it. What is in a box of another layer does not count,
//! because that layer may move the box to another task.

// To register a timer with the runtime takes a lock that all threads share, and to remove it takes
// it again; most timers are dropped long before their instant. So the timer of a call that has
// ended stays registered, and a later call on the same thread moves it. To a later instant that
// takes no lock.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::{coop, unconstrained};
use tokio::time::{Sleep, sleep_until};

use crate::call::{Pool, SharedPool};
use crate::clock;

thread_local! {
    static SPARE: Pool<Pin<Box<Kept>>> = const { Pool::new(|| &SHARED) };

    /// The runtime in which this thread made its last timer. Those that it keeps are of no other.
    static RUNTIME: Cell<Option<Id>> = const { Cell::new(None) };

    /// What the timer that this thread polled last does, if it is still armed.
    static ARMED: Cell<Option<Wakes>> = const { Cell::new(None) };
}

// What no thread drops must not keep a runtime.
static SHARED: SharedPool<Pin<Box<Kept>>> =
    SharedPool::new(|timer| timer.as_mut().project().sleep.set(None));

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

/// Polls of a call whose deadline has passed, while the task has no budget: a set of futures may
/// poll it twice before it yields, and others first.
pub(crate) const MOST_LATE_POLLS: u8 = 8;

/// True if the task has used up tokio's cooperative budget, as many calls that one task polls do:
/// what is pending may have been refused, although it was ready. The task is woken to poll again.
pub(crate) fn budget_is_used_up(cx: &Context<'_>) -> bool {
    let used_up = !coop::has_budget_remaining();
    if used_up {
        cx.waker().wake_by_ref();
    }
    used_up
}

/// Where a pinned future is.
#[inline]
pub(crate) fn address<F>(future: &F) -> usize {
    std::ptr::from_ref(future).addr()
}

pin_project! {
    /// A timer of tokio's, or its memory.
    struct Kept {
        #[pin]
        sleep: Option<Sleep>,
        // The runtime that fires it. Its number may outlive it here, but tokio counts up.
        runtime: Id,
    }
}

impl Kept {
    /// One for this instant, in the runtime that this thread is in.
    fn new(at: Instant) -> Pin<Box<Self>> {
        let runtime = Handle::current().id();
        if RUNTIME.replace(Some(runtime)) != Some(runtime) {
            // They would keep a runtime that may have ended.
            let _ = SPARE.try_with(Pool::clear);
        }
        let Some(mut timer) = SPARE.try_with(Pool::take).ok().flatten() else {
            let sleep = Some(sleep_until(at.into()));
            return Box::pin(Self { sleep, runtime });
        };
        timer.as_mut().move_to(at, runtime);
        timer
    }

    fn move_to(self: Pin<&mut Self>, at: Instant, runtime: Id) {
        let mut this = self.project();
        match this.sleep.as_mut().as_pin_mut() {
            Some(sleep) if *this.runtime == runtime => sleep.reset(at.into()),
            _ => {
                let sleep = sleep_until(at.into());
                *this.runtime = runtime;
                this.sleep.set(Some(sleep));
            }
        }
    }
}

/// A timer of tokio's clock. It wakes the task that polled it last. For crates of a protocol.
///
/// When it is dropped before its instant, it stays registered with the runtime, and the next one on
/// the same thread uses it: at most 64 a thread. Until then it keeps the memory of the task and of
/// the runtime; at its instant it wakes the task once more. Where time is paused, a runtime with
/// nothing else to do advances to that instant, as to that of any timer.
///
/// ```
/// use std::future::poll_fn;
/// use std::time::Duration;
///
/// use reattempt::timer::Timer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut timer = Timer::after(Duration::from_millis(1));
/// poll_fn(|cx| timer.poll(cx)).await;
/// # }
/// ```
#[derive(Default)]
pub struct Timer(Option<Pin<Box<Kept>>>);

impl Timer {
    /// One for this instant.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime that has timers.
    #[must_use]
    pub fn at(at: Instant) -> Self {
        Self(Some(Kept::new(at)))
    }

    /// One for the end of this time. A time that no clock can show has no end.
    ///
    /// # Panics
    ///
    /// As [`at`](Self::at).
    #[must_use]
    pub fn after(time: Duration) -> Self {
        Self::at(clock::after(clock::now(), time))
    }

    /// The instant that it is for, if it was set.
    #[must_use]
    pub fn instant(&self) -> Option<Instant> {
        let sleep = self.0.as_ref()?.sleep.as_ref()?;
        Some(sleep.deadline().into_std())
    }

    /// From now on it is for this instant, of the runtime that this thread is in. If it is for that
    /// instant already, or there is no runtime, it stays in its own.
    ///
    /// # Panics
    ///
    /// As [`at`](Self::at), if it was not set before.
    pub fn set_to(&mut self, at: Instant) {
        if self.instant() == Some(at) {
            return;
        }
        match &mut self.0 {
            Some(timer) => {
                let runtime = Handle::try_current().map_or(timer.runtime, |handle| handle.id());
                timer.as_mut().move_to(at, runtime);
            }
            None => *self = Self::at(at),
        }
    }

    /// Ready when its instant has come, at once if it has none. Not subject to tokio's cooperative
    /// budget: the future that it guards may use up the budget at every poll, and the timer would
    /// never be polled.
    #[inline]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.as_mut().map(|timer| timer.as_mut().project());
        let sleep = timer.and_then(|timer| timer.sleep.as_pin_mut());
        sleep.map_or(Poll::Ready(()), |sleep| pin!(unconstrained(sleep)).poll(cx))
    }

    /// As [`poll`](Self::poll). `owner` is the [`address`] of the future that this timer belongs
    /// to.
    #[inline]
    pub(crate) fn poll_of(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.poll(cx);
        let at = self.instant().filter(|_| polled.is_pending());
        ARMED.set(at.map(|at| Wakes {
            at,
            waker: identity(cx.waker()),
            owner,
        }));
        polled
    }
}

impl Drop for Timer {
    #[inline]
    fn drop(&mut self) {
        if let Some(timer) = self.0.take() {
            give_back(timer);
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.instant()).finish()
    }
}

#[inline(never)]
fn give_back(mut timer: Pin<Box<Kept>>) {
    forget_armed();
    let has_fired = timer.sleep.as_ref().is_some_and(Sleep::is_elapsed);
    // One that has fired would keep its task for ever.
    if has_fired || RUNTIME.get() != Some(timer.runtime) {
        timer.as_mut().project().sleep.set(None);
    }
    // A thread that is shutting down drops it.
    let _ = SPARE.try_with(|spare| spare.put(timer));
}
