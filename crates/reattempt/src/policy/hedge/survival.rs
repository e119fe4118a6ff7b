//! How long attempts take: an estimate that counts attempts which were cancelled, too.

mod curve;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
pub(super) use curve::Curve;

/// Sixteen buckets to each doubling, so that a bucket is at most 6.25 % wide.
const SUB_BITS: u32 = 4;
/// Each time counts 2¹⁰ ns more, so that below that all buckets have one width.
const FIRST_BIT: u32 = 10;
/// Times of 2³⁷ ns, about 137 s, and above share the last.
const LAST_BIT: u32 = 37;
const BUCKETS: usize = ((LAST_BIT - FIRST_BIT) << SUB_BITS) as usize;

/// The number of attempts after which the recent ones are compared with the earlier ones.
const EPOCH: u32 = 1024;
/// The earlier attempts that are remembered, at most.
const MOST_PAST: u32 = 24 * EPOCH;
/// A difference of this many standard deviations, squared, is a change and no accident.
const CHANGED: f32 = 25.0;
/// It is looked for at the end of each of these many buckets.
const STEP: usize = 4;

/// The bits of a float are its logarithm in steps: the exponent, and then the highest bits of what
/// follows it.
#[inline]
fn bucket(nanos: u64) -> usize {
    const FIRST: u32 = (127 + FIRST_BIT) << SUB_BITS;
    // So that the first bucket begins at zero. More than an `i64` holds is a negative number, whose
    // sign makes it a high one; one that wraps around is below `FIRST`, and so a high one too.
    let nanos = nanos.wrapping_add(1 << FIRST_BIT) as i64;
    let steps = (nanos as f32).to_bits() >> (f32::MANTISSA_DIGITS - 1 - SUB_BITS);
    (steps.wrapping_sub(FIRST) as usize).min(BUCKETS - 1)
}

/// The smallest time of a bucket, in nanoseconds; of the bucket after the last, its end.
fn edge(at: usize) -> f32 {
    let (octave, sub) = (at >> SUB_BITS, at & ((1 << SUB_BITS) - 1));
    let width = (1_u64 << (FIRST_BIT as usize + octave)) >> SUB_BITS;
    (width * ((1 << SUB_BITS) + sub as u64) - (1 << FIRST_BIT)) as f32
}

/// Attempts by how long they took: in the low half of each word those that ended, in the high half
/// those that were cancelled, which would have taken at least this long.
type Counts = [u32; BUCKETS];

const ENDED: u32 = 1;
const CUT: u32 = 1 << 16;
/// The most of either.
const MOST: u32 = CUT - 1;

const fn ended_and_cut(word: u32) -> (u32, u32) {
    (word & MOST, word >> 16)
}

/// Two words together.
fn both(one: u32, other: u32) -> u32 {
    let ((ended, cut), (more_ended, more_cut)) = (ended_and_cut(one), ended_and_cut(other));
    (ended + more_ended).min(MOST) | ((cut + more_cut).min(MOST) << 16)
}

fn total(counts: &[u32]) -> u32 {
    counts.iter().map(|word| (word & MOST) + (word >> 16)).sum()
}

/// The buckets from the first to the last that is not empty.
fn used(counts: &Counts) -> Range<usize> {
    let first = counts.iter().position(|word| *word != 0);
    let last = counts.iter().rposition(|word| *word != 0);
    first.unwrap_or(0)..last.map_or(0, |last| last + 1)
}

/// Whether two groups of attempts, of such totals, differ by more than chance explains, where
/// hardly any was cancelled.
fn differ(own: &[u32], own_total: u32, others: &[u32], other_total: u32) -> bool {
    let (own_total, other_total) = (own_total as f32, other_total as f32);
    let fewer = own_total.min(other_total);
    let spread = 1.0 / own_total + 1.0 / other_total;
    let (mut own_left, mut other_left) = (own_total, other_total);
    let (mut own_cut, mut other_cut) = (0, 0);
    for (at, (own, other)) in own.iter().zip(others).enumerate() {
        own_left -= ((own & MOST) + (own >> 16)) as f32;
        other_left -= ((other & MOST) + (other >> 16)) as f32;
        own_cut += own >> 16;
        other_cut += other >> 16;
        if at % STEP != 0 {
            continue;
        }
        if own_cut as f32 > 0.1 * own_left || other_cut as f32 > 0.1 * other_left {
            break;
        }
        let pooled = (own_left + other_left) / (own_total + other_total);
        // Too few attempts on either side of the bucket say nothing.
        if pooled.min(1.0 - pooled) * fewer >= 8.0 {
            let variance = pooled * (1.0 - pooled) * spread;
            if (own_left / own_total - other_left / other_total).powi(2) > CHANGED * variance {
                return true;
            }
        }
    }
    false
}

/// The epochs that are remembered.
const PARTS: u32 = MOST_PAST / EPOCH;

/// The attempts of the past that are remembered: many while the route stays as it was, and only the
/// recent ones once it has changed. Changed by one caller at a time.
#[derive(Debug)]
pub(super) struct Past(Counts);

impl Past {
    pub(super) const fn new() -> Self {
        Self([0; BUCKETS])
    }

    /// The recent attempts become past ones. If they differ from those, those are forgotten.
    fn end_epoch(&mut self, recent: &Counts, recent_total: u32, epoch: u32) -> bool {
        let (before, now) = (used(&self.0), used(recent));
        let past_total = total(&self.0[before.clone()]);
        // Outside of these buckets both are empty, and the same ends of steps are looked at.
        let start = before.start.min(now.start);
        let either = start - start % STEP..before.end.max(now.end);
        let past = &self.0[either.clone()];
        let changed = past_total > 0 && differ(&recent[either], recent_total, past, past_total);
        if changed {
            self.0[before].fill(0);
        } else if past_total + recent_total > MOST_PAST {
            self.age(before, recent_total / EPOCH, epoch);
        }
        for (past, recent) in self.0[now.clone()].iter_mut().zip(&recent[now]) {
            *past = both(*past, *recent);
        }
        changed
    }

    /// For each of these epochs a twenty-fourth goes. Which of the small counts lose one moves on
    /// from epoch to epoch.
    fn age(&mut self, buckets: Range<usize>, epochs: u32, epoch: u32) {
        let parts = epochs.min(PARTS);
        let mut due = (epoch % PARTS + buckets.start as u32 * 7) % PARTS;
        for past in &mut self.0[buckets] {
            let (ended, cut) = ended_and_cut(*past);
            *past -= ((ended * parts + due) / PARTS) | (((cut * parts + due) / PARTS) << 16);
            due = (due + 7) % PARTS;
        }
    }
}

/// The times of a route's recent attempts.
///
/// Counting is one atomic step for each of two counters, and nothing waits.
#[derive(Debug)]
pub(super) struct Survival {
    recent: [AtomicU32; BUCKETS],
    counted: AtomicU64,
}

impl Survival {
    /// Something may be due after each of these many attempts.
    const MARK: u64 = 64;

    pub(super) fn new() -> Self {
        Self {
            recent: std::array::from_fn(|_| AtomicU32::new(0)),
            counted: AtomicU64::new(0),
        }
    }

    /// The number of attempts so far.
    pub(super) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Counts an attempt that ended after this time by its `own`, or was cancelled. Returns the
    /// number of attempts before it.
    #[inline]
    pub(super) fn count(&self, nanos: u64, own: bool) -> u64 {
        let one = if own { ENDED } else { CUT };
        self.recent[bucket(nanos)].fetch_add(one, Ordering::Relaxed);
        self.counted.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether something is due after this number of attempts.
    #[inline]
    pub(super) const fn is_mark(counted: u64) -> bool {
        counted % Self::MARK == 0
    }

    /// Whether an estimate may be worth its cost at this mark: often while little is known.
    pub(super) const fn is_due(counted: u64) -> bool {
        counted % 512 == 0 || counted < 1024
    }

    /// The estimate, and whether the route has changed since the last.
    pub(super) fn estimate(&self, past: &mut Past) -> (Curve, bool) {
        let recent = std::array::from_fn(|at| self.recent[at].load(Ordering::Relaxed));
        let recent_total = total(&recent);
        if recent_total < EPOCH {
            let both = |at| both(recent[at], past.0[at]);
            return (Curve::of(&std::array::from_fn(both)), false);
        }
        // Those that were counted since they were loaded stay.
        for (count, loaded) in self
            .recent
            .iter()
            .zip(&recent)
            .filter(|(_, loaded)| **loaded != 0)
        {
            count.fetch_sub(*loaded, Ordering::Relaxed);
        }
        let epoch = (self.counted() / u64::from(EPOCH)) as u32;
        let changed = past.end_epoch(&recent, recent_total, epoch);
        (Curve::of(&past.0), changed)
    }
}
