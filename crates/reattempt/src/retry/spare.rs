//! The memory of calls that failed, which later calls use again.

use super::Failing;
use crate::call::{Pool, SharedPool};

thread_local! {
    static SPARE: Pool<Box<Failing>> = const { Pool::new(|| &SHARED) };
}

static SHARED: SharedPool<Box<Failing>> = SharedPool::new(|_| ());

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
}
