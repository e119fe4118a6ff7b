//! Reuses the memory of heads for later requests.

use std::sync::Arc;

use reattempt::call::{Pool, SharedPool};

use super::shared::Shared;

thread_local! {
    /// Some 300 bytes each, and at most 4 kB more for the headers.
    static KEPT: Pool<Arc<Shared>> = const { Pool::new(|| &SHARED) };
}

// A head that is put in holds nothing of its request but memory.
static SHARED: SharedPool<Arc<Shared>> = SharedPool::new(|_| ());

/// A head that no other request uses.
#[inline]
pub(super) fn fresh() -> Arc<Shared> {
    // A thread that is shutting down keeps nothing.
    let kept = KEPT.try_with(Pool::take);
    kept.ok().flatten().unwrap_or_default()
}

/// A handle is dropped: the last one leaves the head to a later request.
#[inline]
pub(super) fn give_back(mut shared: Arc<Shared>) {
    if let Some(own) = Arc::get_mut(&mut shared) {
        own.clear();
        // Fails only on a thread that is shutting down, which frees the head.
        let _ = KEPT.try_with(|kept| kept.put(shared));
    }
}
