//! Counts of the last seconds, without a lock.

use std::time::Duration;

use super::Criticality;
use crate::sync::{AtomicU64, Ordering};

/// The parts of a window. A part leaves it at once.
const PARTS: u64 = 10;
/// One for each criticality.
pub(super) const KINDS: usize = 4;

/// Requests and accepts by criticality, in parts of the window's length.
///
/// Each word has its own part's number, so that a count never adds to one of an earlier round: 22
/// bits of it, which repeat after 242 days for a window of five seconds, and 21 for each count,
/// which saturates.
#[derive(Debug)]
pub(super) struct Window {
    /// The length of a part, in nanoseconds.
    part: AtomicU64,
    /// The latest part with a request that was not accepted; zero if there was none.
    trouble: AtomicU64,
    words: [[AtomicU64; KINDS]; PARTS as usize],
}

/// The sums of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: [u64; KINDS],
    pub(super) accepts: [u64; KINDS],
}

const COUNT_BITS: u32 = 21;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const ROUND: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;
/// By at most this many rounds a thread is late. A word that seems to be further ahead is an old
/// one.
const LATE: u64 = 16;

fn part_of(window: Duration) -> u64 {
    // At most ten minutes.
    u64::try_from((window / PARTS as u32).as_nanos()).unwrap_or(u64::MAX)
}

impl Window {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            part: AtomicU64::new(part_of(window)),
            trouble: AtomicU64::new(0),
            words: Default::default(),
        }
    }

    /// Another length. The counts stay if it is the same.
    pub(super) fn resize(&self, window: Duration) {
        self.set_part(part_of(window));
    }

    /// The length of that one.
    pub(super) fn resize_as(&self, other: &Self) {
        let part = other.part.load(Ordering::Relaxed);
        if self.part.load(Ordering::Relaxed) != part {
            self.set_part(part);
        }
    }

    fn set_part(&self, part: u64) {
        if self.part.swap(part, Ordering::Relaxed) != part {
            let words = self.words.iter().flatten();
            words.for_each(|word| word.store(0, Ordering::Relaxed));
            self.trouble.store(0, Ordering::Relaxed);
        }
    }

    /// The part that this time is in, from one: zero is the number of words that were never used.
    fn at(&self, elapsed: Duration) -> u64 {
        let passed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        passed / self.part.load(Ordering::Relaxed).max(1) + PARTS
    }

    /// True if all calls were accepted so far, for which no clock is needed.
    pub(super) fn is_untroubled(&self) -> bool {
        self.trouble.load(Ordering::Relaxed) == 0
    }

    /// True if all calls of the window were accepted, so that nothing needs to be summed up.
    pub(super) fn is_calm(&self, elapsed: Duration) -> bool {
        let trouble = self.trouble.load(Ordering::Relaxed);
        trouble == 0 || trouble + PARTS <= self.at(elapsed)
    }

    /// Counts one call.
    pub(super) fn add(&self, elapsed: Duration, criticality: Criticality, accepted: bool) {
        let at = self.at(elapsed);
        if !accepted {
            self.trouble.fetch_max(at, Ordering::Relaxed);
        }
        let round = (at / PARTS) & ROUND;
        let word = &self.words[(at % PARTS) as usize][usize::from(criticality.number())];
        // Relaxed: the word guards no other memory.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let behind = (word >> (2 * COUNT_BITS)).wrapping_sub(round) & ROUND;
            let (requests, accepts) = if behind == 0 {
                (word & COUNT, (word >> COUNT_BITS) & COUNT)
            } else if behind <= LATE && word & COUNT > 0 {
                // This thread read the clock long ago: the newer part's counts stay. A word without
                // requests was never used, whatever its round.
                return None;
            } else {
                (0, 0)
            };
            // A part that is full counts nothing more, so that the shares stay.
            (requests < COUNT).then(|| {
                let accepts = accepts + u64::from(accepted);
                round << (2 * COUNT_BITS) | accepts << COUNT_BITS | (requests + 1)
            })
        });
    }

    /// A call that was counted as accepted at `counted` was not. If its part has left the window,
    /// it is counted once more.
    #[cfg(any(test, feature = "tokio"))]
    pub(super) fn take_back(&self, counted: Duration, elapsed: Duration, criticality: Criticality) {
        let (part, at) = (self.at(counted), self.at(elapsed));
        let round = (part / PARTS) & ROUND;
        let word = &self.words[(part % PARTS) as usize][usize::from(criticality.number())];
        let less = |word: u64| {
            let has_one = word >> (2 * COUNT_BITS) == round && (word >> COUNT_BITS) & COUNT > 0;
            has_one.then(|| word - (1 << COUNT_BITS))
        };
        let is_in = part + PARTS > at;
        let relaxed = Ordering::Relaxed;
        if is_in && word.fetch_update(relaxed, relaxed, less).is_ok() {
            self.trouble.fetch_max(at, relaxed);
        } else {
            self.add(elapsed, criticality, false);
        }
    }

    /// The sums up to this time: of the part that it is in, and the nine before.
    pub(super) fn counts(&self, elapsed: Duration) -> Counts {
        let at = self.at(elapsed);
        let mut sums = Counts::default();
        for part in at + 1 - PARTS..=at {
            let round = (part / PARTS) & ROUND;
            let words = &self.words[(part % PARTS) as usize];
            for (kind, word) in words.iter().enumerate() {
                let word = word.load(Ordering::Relaxed);
                if word >> (2 * COUNT_BITS) == round {
                    sums.requests[kind] += word & COUNT;
                    sums.accepts[kind] += (word >> COUNT_BITS) & COUNT;
                }
            }
        }
        sums
    }
}
