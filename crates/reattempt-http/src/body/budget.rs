//! A budget of buffer memory shared by many calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum of bytes that all calls together may buffer for further attempts (A6, Memory
/// Management). Clones share it. A body known to be larger is not buffered at all: it is sent once.
///
/// ```
/// use reattempt_http::body::{BufferBudget, ReplayBodyLayer};
///
/// let budget = BufferBudget::new(64 * 1024 * 1024);
/// let (reads, writes) = (ReplayBodyLayer::new(), ReplayBodyLayer::new());
/// let (reads, writes) = (reads.budget(budget.clone()), writes.budget(budget.clone()));
/// # let _ = (reads, writes);
/// assert_eq!(budget.used(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct BufferBudget {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl BufferBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            used: Arc::default(),
        }
    }

    /// Of all calls together.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        // Relaxed: the count guards no other memory.
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.bytes);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Default for BufferBudget {
    /// 16 MiB.
    fn default() -> Self {
        Self::new(super::DEFAULT_BYTES_IN_ALL)
    }
}
