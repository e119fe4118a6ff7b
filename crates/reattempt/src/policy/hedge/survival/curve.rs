//! Which share of attempts takes longer than a time.

use std::ops::Range;

use super::{BUCKETS, Counts, bucket, edge, ended_and_cut, total, used};

/// The share of attempts that take longer than each bucket's end (Kaplan and Meier's estimate).
pub(crate) struct Curve {
    survival: [f32; BUCKETS],
    /// Before it all attempts are longer, and after it no more end.
    used: Range<usize>,
    attempts: f32,
}

impl Curve {
    pub(super) fn of(counts: &Counts) -> Self {
        let used = used(counts);
        let mut survival = [1.0; BUCKETS];
        let attempts = total(counts) as f32;
        let (mut at_risk, mut longer) = (attempts, 1.0_f32);
        for (word, survival) in counts[used.clone()].iter().zip(&mut survival[used.clone()]) {
            if *word != 0 {
                let (ended, cut) = ended_and_cut(*word);
                let (ended, cut) = (ended as f32, cut as f32);
                // Those that were cancelled within the bucket count for half of it.
                let exposed = (at_risk - cut / 2.0).max(ended).max(1.0);
                longer *= 1.0 - ended / exposed;
                at_risk -= ended + cut;
            }
            *survival = longer;
        }
        survival[used.end..].fill(longer);
        Self {
            survival,
            used,
            attempts,
        }
    }

    fn before(&self, at: usize) -> f32 {
        at.checked_sub(1).map_or(1.0, |at| self.survival[at])
    }

    /// The number of attempts that it is made from.
    pub(crate) const fn attempts(&self) -> f32 {
        self.attempts
    }

    /// The share of attempts that exceeds this time, in nanoseconds.
    pub(crate) fn exceeds(&self, time: f32) -> f32 {
        self.before(bucket(time as u64))
    }

    /// The time, in nanoseconds, that this share of attempts exceeds. Where too few attempts ended
    /// for such a share, the time of the slowest that did; where none ended, the longest time seen.
    pub(crate) fn exceeded_by(&self, share: f32) -> f32 {
        let longest = self.survival[BUCKETS - 1];
        if longest >= 1.0 {
            return edge(self.used.end);
        }
        let share = share.max(longest);
        let at = self.survival.partition_point(|longer| *longer > share);
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
    pub(crate) fn wins_after(&self, delay: f32) -> f32 {
        let from = bucket(delay as u64);
        let slow = self.exceeds(delay);
        if slow <= 0.0 {
            return 0.0;
        }
        let mut wins = 0.0;
        for at in from..self.used.end {
            let ends = self.before(at) - self.survival[at];
            if ends > 0.0 {
                let middle = (edge(at) + edge(at + 1)) / 2.0;
                wins += ends * (1.0 - self.exceeds((middle - delay).max(0.0)));
            }
        }
        // Those that are slower than anything seen lose to any second attempt that ends.
        let (beyond, most) = (self.survival[BUCKETS - 1], 1.0 - self.survival[BUCKETS - 1]);
        ((wins + beyond * most) / slow).clamp(0.0, 1.0)
    }
}
