//! Whether slow attempts come in bursts, as they do where attempts wait for each other.

#[cfg(test)]
mod tests;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The share of attempts that counts as slow.
pub(super) const SLOW: f32 = 0.05;
/// Two slow attempts are close if at most this many attempts lie between them: a quarter of the
/// usual number.
const CLOSE: u64 = 5;
/// The share of independent ones that are close.
const INDEPENDENT: f32 = 0.22;
/// Slow attempts of which the share is measured.
const ENOUGH: u32 = 32;

/// Counts slow attempts, and those of them that follow another closely.
#[derive(Debug)]
pub(super) struct Bursts {
    /// The number of the latest slow attempt among all.
    last: AtomicU64,
    slow: AtomicU32,
    close: AtomicU32,
    /// An `f32`.
    share: AtomicU32,
    /// The slow attempts since [`Bursts::lately`] was asked.
    lately: AtomicU32,
}

impl Bursts {
    pub(super) fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            slow: AtomicU32::new(0),
            close: AtomicU32::new(0),
            share: AtomicU32::new(INDEPENDENT.to_bits()),
            lately: AtomicU32::new(0),
        }
    }

    /// An attempt was slow, the latest of this many.
    #[cold]
    pub(super) fn slow(&self, counted: u64) {
        let last = self.last.swap(counted, Ordering::Relaxed);
        self.slow.fetch_add(1, Ordering::Relaxed);
        self.lately.fetch_add(1, Ordering::Relaxed);
        if counted.saturating_sub(last) <= CLOSE {
            self.close.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins anew: what was slow no longer is. Returns the share.
    pub(super) fn forget(&self) -> f32 {
        self.slow.store(0, Ordering::Relaxed);
        self.close.store(0, Ordering::Relaxed);
        self.share.store(INDEPENDENT.to_bits(), Ordering::Relaxed);
        INDEPENDENT
    }

    /// The number of slow attempts since it was asked last.
    pub(super) fn lately(&self) -> u32 {
        self.lately.swap(0, Ordering::Relaxed)
    }

    /// The share of slow attempts that follow another closely; that of independent ones until
    /// enough were slow. One caller at a time.
    pub(super) fn share(&self) -> f32 {
        let slow = self.slow.load(Ordering::Relaxed);
        if slow >= ENOUGH {
            self.slow.store(0, Ordering::Relaxed);
            let close = self.close.swap(0, Ordering::Relaxed) as f32 / slow as f32;
            let before = f32::from_bits(self.share.load(Ordering::Relaxed));
            let mean = (3.0 * before + close) / 4.0;
            self.share.store(mean.to_bits(), Ordering::Relaxed);
        }
        f32::from_bits(self.share.load(Ordering::Relaxed))
    }
}
