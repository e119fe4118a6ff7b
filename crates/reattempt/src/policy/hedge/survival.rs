//! How long attempts take: an estimate that counts attempts which were cancelled, too.

#[cfg(test)]
mod tests;

use crate::sync::{AtomicU16, AtomicU64, Ordering};

/// Sixteen buckets to each doubling, so that a bucket is at most 6.25 % wide.
const SUB_BITS: u32 = 4;
/// Times below 2¹⁰ ns share the first bucket.
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

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << FIRST_BIT);
    let bit = nanos.ilog2();
    let sub = (nanos >> (bit - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    let at = (((bit - FIRST_BIT) as usize) << SUB_BITS) + sub;
    at.min(BUCKETS - 1)
}

/// The smallest time of a bucket, in nanoseconds; of the bucket after the last, its end.
fn edge(at: usize) -> f32 {
    let (octave, sub) = (at >> SUB_BITS, at & ((1 << SUB_BITS) - 1));
    let width = (1_u64 << (FIRST_BIT as usize + octave)) >> SUB_BITS;
    (width * ((1 << SUB_BITS) + sub as u64)) as f32
}

/// Attempts by how long they took.
#[derive(Debug)]
struct Counts {
    /// They ended.
    ended: [AtomicU16; BUCKETS],
    /// They were cancelled: they would have taken at least this long.
    cut: [AtomicU16; BUCKETS],
}

impl Counts {
    fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU16::new(0));
        Self {
            ended: zeros(),
            cut: zeros(),
        }
    }

    fn total(&self) -> u32 {
        let all = self.ended.iter().chain(&self.cut);
        all.map(|count| u32::from(count.load(Ordering::Relaxed)))
            .sum()
    }

    fn at(&self, at: usize) -> (f32, f32) {
        let load = |count: &AtomicU16| f32::from(count.load(Ordering::Relaxed));
        (load(&self.ended[at]), load(&self.cut[at]))
    }
}

/// The share of attempts that take longer than each bucket's end (Kaplan and Meier's estimate).
pub(super) struct Curve {
    survival: [f32; BUCKETS],
    /// Up to this bucket hardly any attempt was cancelled, so that a share has the variance of a
    /// share.
    whole: usize,
}

impl Curve {
    fn of(counts: impl Fn(usize) -> (f32, f32), total: f32) -> Self {
        let mut survival = [0.0; BUCKETS];
        let (mut at_risk, mut longer, mut all_cut) = (total, 1.0_f32, 0.0);
        let mut whole = 0;
        for (at, survival) in survival.iter_mut().enumerate() {
            let (ended, cut) = counts(at);
            if ended > 0.0 {
                // Those that were cancelled within the bucket count for half of it.
                let exposed = (at_risk - cut / 2.0).max(ended);
                longer *= 1.0 - ended / exposed;
            }
            at_risk -= ended + cut;
            all_cut += cut;
            *survival = longer;
            if all_cut <= 0.1 * at_risk {
                whole = at + 1;
            }
        }
        Self { survival, whole }
    }

    fn before(&self, at: usize) -> f32 {
        at.checked_sub(1).map_or(1.0, |at| self.survival[at])
    }

    /// The time, in nanoseconds, that this share of attempts exceeds. Where too few attempts were
    /// seen for such a share, the longest time seen.
    pub(super) fn exceeded_by(&self, share: f32) -> f32 {
        let lowest = self.survival[BUCKETS - 1];
        let below = |at: &usize| self.survival[*at] <= share.max(lowest);
        let at = (0..BUCKETS).find(below).unwrap_or(BUCKETS - 1);
        let (before, after) = (self.before(at), self.survival[at]);
        let (from, to) = (edge(at), edge(at + 1));
        if before <= after {
            return from;
        }
        let part = ((before - share) / (before - after)).clamp(0.0, 1.0);
        from + part * (to - from)
    }

    /// How often a second attempt that is sent after this delay ends before the first, if the two
    /// are independent.
    pub(super) fn wins_after(&self, delay: f32) -> f32 {
        let from = bucket(delay as u64);
        let slow = self.before(from);
        if slow <= 0.0 {
            return 0.0;
        }
        let mut wins = 0.0;
        for at in from..BUCKETS {
            let ends = self.before(at) - self.survival[at];
            if ends > 0.0 {
                let middle = (edge(at) + edge(at + 1)) / 2.0;
                wins += ends * (1.0 - self.before(bucket((middle - delay).max(0.0) as u64)));
            }
        }
        // Those that are slower than anything seen lose to any second attempt that ends.
        let (beyond, most) = (self.survival[BUCKETS - 1], 1.0 - self.survival[BUCKETS - 1]);
        ((wins + beyond * most) / slow).clamp(0.0, 1.0)
    }

    /// Whether two curves of these numbers of attempts differ by more than chance explains.
    fn differs(&self, other: &Self, own_total: f32, other_total: f32) -> bool {
        let all = own_total + other_total;
        (0..self.whole.min(other.whole)).any(|at| {
            let (own, others) = (self.survival[at], other.survival[at]);
            let pooled = (own * own_total + others * other_total) / all;
            // Too few attempts on either side of the bucket say nothing.
            if pooled.min(1.0 - pooled) * own_total.min(other_total) < 8.0 {
                return false;
            }
            let variance = pooled * (1.0 - pooled) * (1.0 / own_total + 1.0 / other_total);
            (own - others).powi(2) > CHANGED * variance
        })
    }
}

/// The times of a route's attempts: many of the past while it stays as it was, and only the recent
/// ones once it has changed.
///
/// Counting is one atomic step for each of two counters. Nothing waits: the estimate is made anew
/// by the caller of [`Survival::counted`] that reaches a mark, and one that finds another at it
/// goes on without.
#[derive(Debug)]
pub(super) struct Survival {
    recent: Counts,
    past: Counts,
    counted: AtomicU64,
}

impl Survival {
    /// How often an estimate is made: at each of these many attempts.
    const MARK: u64 = 32;

    pub(super) fn new() -> Self {
        Self {
            recent: Counts::new(),
            past: Counts::new(),
            counted: AtomicU64::new(0),
        }
    }

    /// The number of attempts so far.
    pub(super) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Counts an attempt that ended after this time. Returns the number of attempts at each mark.
    #[inline]
    pub(super) fn ended(&self, nanos: u64) -> Option<u64> {
        self.recent.ended[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        let counted = self.counted.fetch_add(1, Ordering::Relaxed) + 1;
        (counted % Self::MARK == 0).then_some(counted)
    }

    /// Counts an attempt that was cancelled after this time.
    pub(super) fn cut(&self, nanos: u64) -> Option<u64> {
        self.recent.cut[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        let counted = self.counted.fetch_add(1, Ordering::Relaxed) + 1;
        (counted % Self::MARK == 0).then_some(counted)
    }

    /// Whether an estimate is worth its cost at this mark: often while little is known.
    pub(super) const fn is_due(counted: u64) -> bool {
        counted % 512 == 0 || counted < 1024
    }

    /// The estimate, and whether the route has changed since the last. One caller at a time.
    pub(super) fn estimate(&self) -> (Curve, bool) {
        let recent = self.recent.total();
        let mut changed = false;
        if recent >= EPOCH {
            changed = self.end_epoch(recent);
        }
        let counts = |at| {
            let (recent, past) = (self.recent.at(at), self.past.at(at));
            (recent.0 + past.0, recent.1 + past.1)
        };
        let total = (self.recent.total() + self.past.total()) as f32;
        (Curve::of(counts, total), changed)
    }

    /// The recent attempts become past ones. If they differ from those, those are forgotten.
    fn end_epoch(&self, recent: u32) -> bool {
        let past = self.past.total();
        let (own, others) = (recent as f32, past as f32);
        let changed = past > 0
            && Curve::of(|at| self.recent.at(at), own).differs(
                &Curve::of(|at| self.past.at(at), others),
                own,
                others,
            );
        let full = past + recent > MOST_PAST;
        // A twenty-fourth goes. Which of the small counts lose one moves on from epoch to epoch.
        let parts = MOST_PAST / EPOCH;
        let turn = (self.counted() / u64::from(EPOCH)) as u32 % parts;
        for (recent, past) in [
            (&self.recent.ended, &self.past.ended),
            (&self.recent.cut, &self.past.cut),
        ] {
            for (at, (recent, past)) in recent.iter().zip(past).enumerate() {
                let recent = recent.swap(0, Ordering::Relaxed);
                let mut kept = u32::from(past.load(Ordering::Relaxed));
                if changed {
                    kept = 0;
                } else if full {
                    kept -= (kept + (turn + at as u32 * 7) % parts) / parts;
                }
                let sum = kept + u32::from(recent);
                past.store(sum.min(u16::MAX.into()) as u16, Ordering::Relaxed);
            }
        }
        changed
    }
}
