//! What inner layers and transports report of one attempt.

#[cfg(all(test, reattempt_loom))]
mod models;
mod reports;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use crate::AttemptReport;
use crate::policy::MOST_HEDGED_ATTEMPTS;
use crate::sync::{AtomicU64, Ordering};
pub(crate) use reports::Flag;
use reports::{VALUE_BITS, reported};

/// Resolves after a newer configuration was looked up: `true` if it moved the call's target, so
/// that the retry is sent at once; `false` leaves the delay to the back-off.
pub type ConfigWaiter = Pin<Box<dyn Future<Output = bool> + Send + 'static>>;

/// The maximum number of attempts of one call that can be in flight and still report.
pub(crate) const SLOTS: usize = MOST_HEDGED_ATTEMPTS as usize;

/// An attempt's number and the slot assigned to it.
///
/// The slot does not follow from the number: transparent and forced retries continue past [`SLOTS`]
/// while an early attempt may still be in flight, and none may take a slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptKey {
    pub(crate) attempt: u32,
    pub(crate) slot: u8,
}

impl AttemptKey {
    /// Whether the word is this attempt's.
    const fn owns(self, word: u64) -> bool {
        word >> TAG_SHIFT == tag(self.attempt) >> TAG_SHIFT
    }
}

/// One word per attempt: 9 bits of attempt number, 14 of flags, 41 of pushback in microseconds.
///
/// A report names its attempt; if a later attempt owns the slot, the report is ignored. Numbers
/// that differ by 512 look the same: a report would have to be later than 512 further attempts.
#[derive(Debug, Default)]
pub(crate) struct AttemptSlots([AtomicU64; SLOTS]);

const TAG_SHIFT: u32 = VALUE_BITS + 14;

const fn tag(attempt: u32) -> u64 {
    (attempt as u64) << TAG_SHIFT
}

impl AttemptSlots {
    #[inline]
    fn slot(&self, slot: u8) -> &AtomicU64 {
        &self.0[slot as usize % SLOTS]
    }

    /// Assigns an empty slot to this attempt: its first choice or, if an earlier attempt is still
    /// in flight there, the slot of an attempt that is over.
    #[inline]
    pub(crate) fn begin(&self, attempt: u32) -> AttemptKey {
        let mut key = AttemptKey {
            attempt,
            slot: (attempt % SLOTS as u32) as u8,
        };
        // Up to this number every attempt is the first of this call in its slot, whose content is
        // left over from an earlier call.
        if attempt > SLOTS as u32 && !self.is_over(key.slot) {
            key.slot = self.free(key.slot);
        }
        self.slot(key.slot).store(tag(attempt), Ordering::Release);
        key
    }

    fn is_over(&self, slot: u8) -> bool {
        self.slot(slot).load(Ordering::Acquire) & Flag::OVER.0 != 0
    }

    /// The slot of an attempt that is over. One always exists: fewer than [`SLOTS`] attempts are in
    /// flight when a further one is sent.
    #[cold]
    fn free(&self, first: u8) -> u8 {
        (0..SLOTS as u8)
            .find(|slot| self.is_over(*slot))
            .unwrap_or(first)
    }

    /// Changes the word of this attempt, and returns it as it was; `None` if the slot belongs to a
    /// later attempt.
    fn update(&self, key: AttemptKey, change: impl Fn(u64) -> u64) -> Option<u64> {
        self.slot(key.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                key.owns(word).then(|| change(word))
            })
            .ok()
    }

    /// The attempt takes no more reports: what was reported of it.
    pub(crate) fn end(&self, key: AttemptKey) -> AttemptReport {
        let word = self.update(key, |word| word | Flag::OVER.0);
        word.map_or_else(AttemptReport::default, report)
    }
}

/// Nothing was reported, as of most attempts.
fn is_silent(word: u64) -> bool {
    word & ((1 << TAG_SHIFT) - 1) & !Flag::OVER.0 == 0
}

/// What a word says of its attempt.
fn report(word: u64) -> AttemptReport {
    if is_silent(word) {
        return AttemptReport::default();
    }
    reported(word)
}
