//! A count of live values, for tests that nothing leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// One live value. Decrements the count when dropped.
#[derive(Debug)]
pub struct Live(Arc<AtomicI64>);

impl Live {
    /// Increments this count.
    #[must_use]
    pub fn one_of(count: &Arc<AtomicI64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of live values.
#[must_use]
pub fn count(alive: &Arc<AtomicI64>) -> i64 {
    alive.load(Ordering::Relaxed)
}
