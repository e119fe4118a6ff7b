//! Reuses the memory of heads for later requests on the same thread.

use std::cell::RefCell;
use std::sync::Arc;

use super::head::Shared;

/// The maximum number of heads kept per thread: about 20 kB, and at most 4 kB more for the headers
/// of each.
const MOST_KEPT: usize = 64;

thread_local! {
    static KEPT: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// A head that no other request uses.
#[inline]
pub(super) fn fresh() -> Arc<Shared> {
    // A thread that is shutting down keeps nothing.
    let kept = KEPT.try_with(|kept| kept.try_borrow_mut().ok()?.pop());
    kept.ok().flatten().unwrap_or_default()
}

/// A handle is dropped: the last one leaves the head to a later request.
#[inline]
pub(super) fn give_back(mut shared: Arc<Shared>) {
    let Some(own) = Arc::get_mut(&mut shared) else {
        return;
    };
    own.clear();
    // Fails only on a thread that is shutting down, which frees the head.
    let _ = KEPT.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            if kept.len() < MOST_KEPT {
                kept.push(shared);
            }
        }
    });
}
