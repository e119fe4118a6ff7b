//! Quantiles of times, exact for few and to a thousandth for many, in bounded memory.

use std::cmp::Reverse;
use std::iter::repeat_n;

/// As many values as are kept exactly.
const EXACT: usize = 1 << 16;
/// Steps within a factor of two.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;

/// Quantiles of numbers, such as times in nanoseconds. Up to 65,535 of them are kept, and the
/// quantiles are exact; of more only counts by size are kept, in a few hundred KiB at most, and a
/// quantile is off by less than a thousandth.
///
/// ```
/// use reattempt_lab::Quantiles;
///
/// let mut times = Quantiles::default();
/// assert_eq!(times.quantile(0.5), None);
/// for time in (1..=100).rev() {
///     times.add(time);
/// }
/// assert_eq!((times.count(), times.quantile(0.99)), (100, Some(99)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    exact: Vec<u64>,
    /// Once there are too many: counts by size.
    buckets: Vec<u32>,
    count: u64,
    sum: u128,
    max: u64,
}

fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros() - STEP_BITS;
    let step = (value >> power) as usize - STEPS;
    STEPS + power as usize * STEPS + step
}

/// The middle of the values of a bucket.
fn middle(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let power = bucket / STEPS - 1;
    let step = (bucket % STEPS + STEPS) as u64;
    (step << power) + ((1_u64 << power) >> 1)
}

/// The place of a quantile, from 1, among this many values. `None` without values.
pub(super) fn rank(share: f64, count: u64) -> Option<u64> {
    (count > 0).then(|| ((share * count as f64).ceil() as u64).clamp(1, count))
}

/// What a quantile of this many values is whose exact value is this.
pub(super) fn as_one_of(count: u64, value: u64, max: u64) -> u64 {
    if count < EXACT as u64 {
        value
    } else {
        middle(bucket(value)).min(max)
    }
}

impl Quantiles {
    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        if self.buckets.is_empty() {
            self.exact.push(value);
            if self.exact.len() == EXACT {
                for value in std::mem::take(&mut self.exact) {
                    self.add_to_bucket(value);
                }
            }
        } else {
            self.add_to_bucket(value);
        }
    }

    fn add_to_bucket(&mut self, value: u64) {
        let at = bucket(value);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] = self.buckets[at].saturating_add(1);
    }

    /// How many values were added.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value that at least this share of all, from 0 to 1, is not above. `None`
    /// without values.
    pub fn quantile(&mut self, share: f64) -> Option<u64> {
        let rank = rank(share, self.count)?;
        if self.buckets.is_empty() {
            // Costs little when it is sorted already.
            self.exact.sort_unstable();
            return self.exact.get(rank as usize - 1).copied();
        }
        let mut below = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return Some(middle(at).min(self.max));
            }
        }
        Some(self.max)
    }

    /// The largest ones, this many at most; those that were counted by size as the middle of it.
    pub(super) fn largest(mut self, most: usize) -> Vec<u64> {
        if self.buckets.is_empty() {
            self.exact.sort_unstable_by_key(|value| Reverse(*value));
            self.exact.truncate(most);
            return self.exact;
        }
        let counts = self.buckets.iter().enumerate().rev();
        let values = counts.flat_map(|(at, count)| repeat_n(middle(at), *count as usize));
        values.take(most).collect()
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// `None` without values.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact_and_many_within_a_thousandth() {
        for count in [1_u64, 100, 300_000] {
            let mut times = Quantiles::default();
            (1..=count)
                .rev()
                .for_each(|value| times.add(value * 1_000_003));
            for share in [0.01, 0.5, 0.99, 0.999, 1.0] {
                let exact = ((share * count as f64).ceil() as u64).max(1) * 1_000_003;
                let off = times.quantile(share).unwrap().abs_diff(exact) as f64 / exact as f64;
                assert!(
                    off < if count > 1000 { 0.001 } else { 1e-12 },
                    "{count} {share}"
                );
            }
            assert_eq!(times.max(), count * 1_000_003);
            assert_eq!(times.count(), count);
        }
        assert_eq!(Quantiles::default().quantile(0.5), None);
    }

    #[test]
    fn the_memory_of_very_many_values_is_bounded() {
        let mut times = Quantiles::default();
        times.add(u64::MAX);
        (0..100_000).for_each(|value| times.add(value << 32));
        assert!(times.exact.is_empty());
        assert_eq!(times.buckets.len() * size_of::<u32>(), 220 << 10);
    }
}
