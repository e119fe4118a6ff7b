//! Reuses the memory of calls that have ended for later ones.
//!
//! A thread keeps a few, and uses the last one first. What is too much for it is left to threads
//! that have none: a call may begin on one thread and end on another.

pub(crate) mod states;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Mutex, TryLockError};

/// The maximum number kept per thread of each kind: of states about 12 kB, and up to 80 kB after
/// calls that failed; of what a failing call needs about 30 kB.
const MOST_KEPT: usize = 64;
/// How many a thread leaves to others at once, and takes from them.
const BATCH: usize = MOST_KEPT / 2;
/// The maximum number of each kind that threads leave to others.
const MOST_SHARED: usize = 512;

/// What a thread keeps for later calls: at most 64, the last one that was put in first. For crates
/// of a protocol.
///
/// ```
/// use reattempt::call::{Pool, SharedPool};
///
/// static SHARED: SharedPool<Vec<u8>> = SharedPool::new(|_| ());
/// thread_local! {
///     static BUFFERS: Pool<Vec<u8>> = const { Pool::new(|| &SHARED) };
/// }
///
/// BUFFERS.with(|buffers| buffers.put(Vec::with_capacity(64)));
/// let buffer = BUFFERS.with(Pool::take).expect("one was kept");
/// assert_eq!(buffer.capacity(), 64);
/// ```
pub struct Pool<T: 'static> {
    /// Enough when one call follows another.
    next: Cell<Option<T>>,
    others: RefCell<Vec<T>>,
    // By a function: in a `const` the oldest supported Rust refuses the address of a static that
    // changes.
    shared: fn() -> &'static SharedPool<T>,
}

/// What threads that have too many leave to threads that have none: at most 512.
pub struct SharedPool<T> {
    kept: Mutex<Vec<T>>,
    prepare: fn(&mut T),
}

impl<T> SharedPool<T> {
    /// An empty one. `prepare` is called with each value that a thread leaves to others: what the
    /// value holds of users should be dropped then.
    #[must_use]
    pub const fn new(prepare: fn(&mut T)) -> Self {
        Self {
            kept: Mutex::new(Vec::new()),
            prepare,
        }
    }

    /// Moves values between threads, unless another thread is doing so now: no thread waits.
    fn exchange(&self, exchange: impl FnOnce(&mut Vec<T>)) {
        match self.kept.try_lock() {
            Ok(mut kept) => exchange(&mut kept),
            Err(TryLockError::Poisoned(kept)) => exchange(&mut kept.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn leave(&self, mut batch: [Option<T>; BATCH]) {
        // Outside of the lock, as the drop of what finds no room: both may be user code.
        batch.iter_mut().flatten().for_each(self.prepare);
        self.exchange(|kept| {
            let room = MOST_SHARED.saturating_sub(kept.len());
            let left = batch.iter_mut().filter_map(Option::take);
            kept.extend(left.take(room));
        });
    }
}

impl<T> Pool<T> {
    /// An empty one, for a thread, beside this one of all threads.
    #[must_use]
    pub const fn new(shared: fn() -> &'static SharedPool<T>) -> Self {
        Self {
            next: Cell::new(None),
            others: RefCell::new(Vec::new()),
            shared,
        }
    }

    /// The value that was put in last, else one that another thread left.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.next.take().or_else(|| self.pop())
    }

    /// Keeps a value, or drops it if there are too many.
    #[inline]
    pub fn put(&self, value: T) {
        if let Some(before) = self.next.replace(Some(value)) {
            self.push(before);
        }
    }

    /// Drops what this thread keeps.
    #[cold]
    pub(crate) fn clear(&self) {
        drop(self.next.take());
        let others = self.others.try_borrow_mut();
        let others = others.map(|mut others| std::mem::take(&mut *others));
        drop(others);
    }

    #[cold]
    #[inline(never)]
    fn pop(&self) -> Option<T> {
        let mut others = self.others.try_borrow_mut().ok()?;
        if others.is_empty() {
            (self.shared)().exchange(|kept| {
                let from = kept.len().saturating_sub(BATCH);
                others.extend(kept.drain(from..));
            });
        }
        others.pop()
    }

    #[cold]
    #[inline(never)]
    fn push(&self, value: T) {
        let Ok(mut others) = self.others.try_borrow_mut() else {
            return;
        };
        if others.len() < MOST_KEPT - 1 {
            others.push(value);
        } else {
            let mut batch = [const { None }; BATCH];
            for (left, oldest) in batch.iter_mut().zip(others.drain(..BATCH)) {
                *left = Some(oldest);
            }
            others.push(value);
            drop(others);
            (self.shared)().leave(batch);
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SharedPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPool").finish_non_exhaustive()
    }
}
