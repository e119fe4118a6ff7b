//! Reuses the states of successful calls for later calls on the same thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::call::state::CallState;

/// The maximum number of states kept per thread, about 11 kB.
const MOST_KEPT: usize = 64;

thread_local! {
    static KEPT: Kept = const {
        Kept {
            next: Cell::new(None),
            others: RefCell::new(Vec::new()),
        }
    };
}

/// Blocks of finished calls. A handle, a `RetryInfoHandle` or a late reporter may still refer to
/// some of them.
struct Kept {
    /// Enough when one call follows another.
    next: Cell<Option<Arc<CallState>>>,
    others: RefCell<Vec<Arc<CallState>>>,
}

impl Kept {
    #[cold]
    #[inline(never)]
    fn pop(&self) -> Option<Arc<CallState>> {
        self.others.try_borrow_mut().ok()?.pop()
    }

    #[cold]
    #[inline(never)]
    fn push(&self, state: Arc<CallState>) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            if others.len() < MOST_KEPT - 1 {
                others.push(state);
            }
        }
    }
}

/// Returns a state that no other call uses.
#[inline(always)]
pub(crate) fn fresh() -> Arc<CallState> {
    // A thread that is shutting down keeps nothing.
    let kept = KEPT.try_with(|kept| kept.next.take().or_else(|| kept.pop()));
    match kept {
        // There are no weak handles: a strong count of 1 means that no other handle can appear. A
        // state that is still referenced elsewhere is not reused, so no call ever sees data of
        // another.
        Ok(Some(state)) if Arc::strong_count(&state) == 1 => {
            // Pairs with the release in the drop of the other handles: their writes happen before
            // the reset.
            fence(Ordering::Acquire);
            let state = if state.is_logged() {
                without_log(state)
            } else {
                state
            };
            state.reset();
            state
        }
        Ok(Some(state)) => instead_of(state),
        _ => make(),
    }
}

#[cold]
#[inline(never)]
fn make() -> Arc<CallState> {
    Arc::default()
}

#[cold]
#[inline(never)]
fn instead_of(state: Arc<CallState>) -> Arc<CallState> {
    drop(state);
    Arc::default()
}

#[cold]
#[inline(never)]
fn without_log(mut state: Arc<CallState>) -> Arc<CallState> {
    match Arc::get_mut(&mut state) {
        Some(state) => state.clear_log(),
        None => state = Arc::default(),
    }
    state
}

/// Stores the state of a finished call that left no log.
#[inline(always)]
pub(crate) fn keep(state: Arc<CallState>) {
    // Fails only on a thread that is shutting down, which frees the state.
    let _ = KEPT.try_with(|kept| {
        if let Some(before) = kept.next.replace(Some(state)) {
            kept.push(before);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::StopReason;
    use crate::{AttemptKind, AttemptReport, CallContext, RetryInfo, ServerPushback};

    fn kept() -> usize {
        KEPT.with(|kept| {
            let next = kept.next.take();
            let count = kept.others.borrow().len() + usize::from(next.is_some());
            kept.next.set(next);
            count
        })
    }

    fn state_of(context: &CallContext) -> *const CallState {
        std::ptr::from_ref(context.shared().expect("has begun"))
    }

    #[test]
    fn the_threads_next_call_reuses_the_block_without_its_data() {
        let mut first = CallContext::default();
        drop(first.begin());
        first.reporter().pushback(ServerPushback::Stop);
        first.claim_first();
        first.reporter().forbid();
        first.settle_success(true);
        first.begin().stop(StopReason::Fatal);
        let state = state_of(&first);
        let late = first.reporter();
        first.retire();
        assert_eq!(kept(), 1);
        late.backend(crate::call::attempts::Backend::new("a"));
        drop(late);

        let mut second = CallContext::default();
        let handle = second.begin();
        assert_eq!(kept(), 0);
        assert!(std::ptr::eq(state_of(&second), state));
        assert_eq!(second.info(), RetryInfo::default());
        assert_eq!(second.report(), AttemptReport::default());
        assert!(!handle.is_claimed() && second.backends_tried().is_empty());
        second.claim_first();
        assert_eq!(second.report(), AttemptReport::default());
        assert!(handle.in_flight());
    }

    #[test]
    fn a_block_that_is_still_referenced_is_not_reused() {
        let mut request = crate::Call::new(());
        let watch = RetryInfo::track(&mut request);
        let mut context = request.into_parts().1;
        context.start_attempt(1, AttemptKind::Initial);
        let (state, late) = (state_of(&context), context.reporter());
        context.retire();
        let mut next = CallContext::default();
        next.start_attempt(1, AttemptKind::Initial);
        assert!(!std::ptr::eq(state_of(&next), state));
        late.forbid();
        assert!(!next.report().forbidden);
        assert_eq!(watch.info().attempts(), 1);
    }

    #[test]
    fn blocks_of_failed_calls_are_not_kept() {
        let mut context = CallContext::default();
        context.claim_first();
        context
            .reporter()
            .config_coming(Box::pin(std::future::pending()));
        context.retire();
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let mut calls: Vec<_> = (0..2 * MOST_KEPT)
            .map(|_| {
                let mut context = CallContext::default();
                context.begin();
                context
            })
            .collect();
        calls.iter_mut().for_each(CallContext::retire);
        assert_eq!(kept(), MOST_KEPT);
    }
}
