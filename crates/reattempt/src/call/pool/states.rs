//! The states of calls that have ended.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::{Pool, SharedPool};
use crate::call::state::CallState;

thread_local! {
    /// States of finished calls, to which nothing refers any more. Each still holds the policy and
    /// the throttle that its last call had.
    pub(super) static STATES: Pool<Arc<CallState>> = const { Pool::new(|| &SHARED) };
}

/// Without policies and throttles: their users would wonder who still has them.
static SHARED: SharedPool<Arc<CallState>> = SharedPool::new(|state| {
    if let Some(unshared) = Arc::get_mut(state) {
        drop(std::mem::take(&mut unshared.options));
    }
});

/// Returns a state that no other call uses.
#[inline]
pub(crate) fn fresh() -> Arc<CallState> {
    // A thread that is shutting down keeps nothing.
    match STATES.try_with(Pool::take) {
        Ok(Some(state)) => {
            state.reset();
            state
        }
        _ => make(),
    }
}

#[cold]
#[inline(never)]
fn make() -> Arc<CallState> {
    Arc::default()
}

/// A context or handle of a call is dropped: the last one leaves the state to a later call, unless
/// it has options of the caller.
#[inline(never)]
pub(crate) fn give_back(state: Arc<CallState>) {
    // There are no weak handles: a strong count of 1 means that no other handle can appear. If two
    // handles are dropped at once, both may see 2, and the state is freed.
    if Arc::strong_count(&state) == 1 {
        give_back_last(state);
    }
}

// Apart, so that the other handles need no stack frame.
#[inline(never)]
fn give_back_last(state: Arc<CallState>) {
    // Pairs with the release in the drop of the other handles: their writes happen before the next
    // call's.
    fence(Ordering::Acquire);
    if state.is_reusable() {
        keep(state);
    } else {
        emptied(state);
    }
}

#[inline]
fn keep(state: Arc<CallState>) {
    // Fails only on a thread that is shutting down, which frees the state.
    let _ = STATES.try_with(|states| states.put(state));
}

/// Empties the log. Of an attempt with options of its own, keeps these rather than those of its
/// call, which has fewer.
#[cold]
#[inline(never)]
fn emptied(mut state: Arc<CallState>) {
    if let Some(unshared) = Arc::get_mut(&mut state) {
        drop(unshared.leave_call());
        unshared.clear_log();
        if state.is_reusable() {
            keep(state);
        }
    }
}
