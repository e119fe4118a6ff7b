//! The largest of many values, of which a high quantile is found.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::quantiles::{Quantiles, as_one_of, rank};

const SHARE: f64 = 0.99;
/// One value in this number is above the quantile.
const ONE_IN: usize = 100;

/// The 99th percentile of values whose number is bounded, though not known yet. It is the same to
/// the bit as that of [`Quantiles`], in a hundredth of the memory.
#[derive(Debug)]
pub(super) struct Largest {
    kept: BinaryHeap<Reverse<u64>>,
    most: usize,
    count: u64,
    max: u64,
}

impl Largest {
    /// Of these values and further ones: `calls` at most, all together.
    pub(super) fn of(values: Quantiles, calls: u64) -> Self {
        let most = calls as usize / ONE_IN + 1;
        let (count, max) = (values.count(), values.max());
        let mut kept: Vec<_> = values.largest(most).into_iter().map(Reverse).collect();
        kept.shrink_to_fit();
        Self {
            kept: kept.into(),
            most,
            count,
            max,
        }
    }

    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.max = self.max.max(value);
        if self.kept.len() < self.most {
            self.kept.push(Reverse(value));
        } else if let Some(mut least) = self.kept.peek_mut().filter(|least| least.0 < value) {
            *least = Reverse(value);
        }
    }

    /// `None` without values.
    pub(super) fn p99(self) -> Option<u64> {
        let above = self.count.checked_sub(rank(SHARE, self.count)?)?;
        let Reverse(value) = *self.kept.into_sorted_vec().get(above as usize)?;
        Some(as_one_of(self.count, value, self.max))
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_of_the_largest_is_that_of_all() {
        let value = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 60);
        for calls in (1..400).chain([999, 1000, 1001, 65_534, 65_535, 65_536, 65_537, 200_000]) {
            for before in [0, calls / 3, calls - 1, calls] {
                // Some calls end without success.
                for ended in [before, before.max(calls / 2), calls] {
                    let (mut all, mut first) = (Quantiles::default(), Quantiles::default());
                    (0..ended).for_each(|at| all.add(value(at)));
                    (0..before).for_each(|at| first.add(value(at)));
                    let mut largest = Largest::of(first, calls);
                    (before..ended).for_each(|at| largest.add(value(at)));
                    assert_eq!(
                        largest.p99(),
                        all.quantile(0.99),
                        "{before} {ended} {calls}"
                    );
                }
            }
        }
    }
}
