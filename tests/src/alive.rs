//! A count of what is alive, for tests that nothing leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// One that is alive. Subtracts itself from its count when dropped.
#[derive(Debug)]
pub struct Live(Arc<AtomicI64>);

impl Live {
    /// Adds one to this count.
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

/// How many are alive.
#[must_use]
pub fn count(alive: &Arc<AtomicI64>) -> i64 {
    alive.load(Ordering::Relaxed)
}
