//! Blocks of calls that are over, kept for the calls that follow on the same thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::block::CallBlock;

/// The most blocks kept by one thread, some 11 kB.
const MOST_KEPT: usize = 64;

thread_local! {
    static KEPT: Kept = const {
        Kept {
            next: Cell::new(None),
            others: RefCell::new(Vec::new()),
        }
    };
}

/// Every block in here is as good as new, and nobody else has a handle on it.
struct Kept {
    /// Where one call follows the other this is the only one.
    next: Cell<Option<Arc<CallBlock>>>,
    others: RefCell<Vec<Arc<CallBlock>>>,
}

impl Kept {
    #[inline(never)]
    fn pop(&self) -> Option<Arc<CallBlock>> {
        self.others.try_borrow_mut().ok()?.pop()
    }

    #[inline(never)]
    fn push(&self, block: Arc<CallBlock>) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            if others.len() < MOST_KEPT - 1 {
                others.push(block);
            }
        }
    }
}

/// A handle on a call's block, or on none yet. The last one puts the block by for another call.
///
/// Reporters and watches hold the block itself: as long as one of them is left the block is not
/// put by, so that nothing of one call is ever seen in another.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockRef(Option<Arc<CallBlock>>);

impl BlockRef {
    #[inline]
    pub(crate) fn get(&self) -> Option<&Arc<CallBlock>> {
        self.0.as_ref()
    }

    /// A handle on a block that no other call uses.
    #[inline(always)]
    pub(crate) fn fresh() -> Self {
        Self(Some(fresh()))
    }

    #[inline(always)]
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Puts the block by, of which this is the only handle.
    #[inline(never)]
    fn put_by(&mut self) {
        // Pairs with the release in the drop of the other handles: what they wrote comes before the reset.
        fence(Ordering::Acquire);
        let Some(block) = self.0.as_mut() else { return };
        if block.is_logged() {
            clear_log(block);
        }
        block.reset();
        // Fails only on a thread that is going down, which frees the block.
        let _ = KEPT.try_with(|kept| {
            let before = kept.next.replace(self.0.take());
            if let Some(before) = before {
                kept.push(before);
            }
        });
    }
}

#[inline(always)]
fn fresh() -> Arc<CallBlock> {
    // A thread that is going down has nothing to keep.
    let kept = KEPT.try_with(|kept| kept.next.take().or_else(|| kept.pop()));
    match kept {
        Ok(Some(block)) => block,
        _ => make(),
    }
}

#[cold]
#[inline(never)]
fn make() -> Arc<CallBlock> {
    Arc::default()
}

#[cold]
#[inline(never)]
fn clear_log(block: &mut Arc<CallBlock>) {
    match Arc::get_mut(block) {
        Some(block) => block.clear_log(),
        None => *block = Arc::default(),
    }
}

impl Drop for BlockRef {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(block) = &self.0 {
            // There are no weak handles: who sees that his is the only one is alone with the block for good.
            if Arc::strong_count(block) == 1 {
                self.put_by();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Stopped;
    use crate::{CallContext, ServerPushback};

    fn kept() -> usize {
        KEPT.with(|kept| {
            let next = kept.next.take();
            let count = kept.others.borrow().len() + usize::from(next.is_some());
            kept.next.set(next);
            count
        })
    }

    #[test]
    fn a_block_serves_the_next_call_of_its_thread_and_tells_it_nothing() {
        let mut first = CallContext::default();
        let handle = first.begin();
        first.reporter().pushback(ServerPushback::Stop);
        first.claim();
        first.start_attempt(1, crate::AttemptKind::Initial);
        first.reporter().forbid();
        first.reporter().backend(crate::findings::Backend::new("a"));
        handle.stop(Stopped::Fatal);
        drop(first);
        assert_eq!(kept(), 0, "a handle is left");
        drop(handle);
        assert_eq!(kept(), 1);

        let mut second = CallContext::default();
        let handle = second.begin();
        assert_eq!(kept(), 0);
        assert_eq!(second.info(), crate::RetryInfo::default());
        assert_eq!(second.findings(), crate::Findings::default());
        assert!(!handle.is_claimed() && second.backends_tried().is_empty());
        second.claim();
        second.start_attempt(1, crate::AttemptKind::Initial);
        assert_eq!(second.findings(), crate::Findings::default());
    }

    #[test]
    fn a_block_that_somebody_can_still_see_is_not_put_by() {
        let mut request = crate::Call::new(());
        let watch = CallContext::watch(&mut request);
        let mut context = request.into_parts().1;
        context.start_attempt(1, crate::AttemptKind::Initial);
        let late = context.reporter();
        drop(context);
        assert_eq!((kept(), watch.info().attempts()), (0, 1));
        drop(watch);
        late.forbid();
        drop(late);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let calls: Vec<_> = (0..2 * MOST_KEPT)
            .map(|_| {
                let mut context = CallContext::default();
                context.begin();
                context
            })
            .collect();
        drop(calls);
        assert_eq!(kept(), MOST_KEPT);
    }
}
