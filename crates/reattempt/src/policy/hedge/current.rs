//! The delay that has been learned.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};

const NANOS_PER_S: u64 = 1_000_000_000;

/// Read by every call: seconds in the high half and nanoseconds in the low half, so that nothing is
/// divided then. 0 while too little is known.
#[derive(Debug)]
pub(super) struct CurrentDelay(AtomicU64);

impl CurrentDelay {
    pub(super) fn unknown() -> Self {
        Self(AtomicU64::new(0))
    }

    /// At least a nanosecond.
    pub(super) fn set(&self, nanos: u64) {
        let nanos = nanos.max(1);
        let word = ((nanos / NANOS_PER_S) << 32) | (nanos % NANOS_PER_S);
        self.0.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> Option<Duration> {
        let word = self.0.load(Ordering::Relaxed);
        (word > 0).then(|| Duration::new(word >> 32, word as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_read_as_it_was_set() {
        let delay = CurrentDelay::unknown();
        assert_eq!(delay.get(), None);
        for nanos in [1, 999_999_999, 1_000_000_000, 137_438_953_472] {
            delay.set(nanos);
            assert_eq!(delay.get(), Some(Duration::from_nanos(nanos)));
        }
        delay.set(0);
        assert_eq!(delay.get(), Some(Duration::from_nanos(1)));
    }
}
