//! Quantiles of times, exact for few and to a thousandth for many, in bounded memory.

/// As many values as are kept exactly.
const EXACT: usize = 1 << 16;
/// Steps within a factor of two.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;

/// Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
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

impl Quantiles {
    pub(crate) fn add(&mut self, value: u64) {
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

    /// Sorts what is kept exactly; before the first quantile.
    pub(crate) fn finish(&mut self) {
        self.exact.sort_unstable();
    }

    /// The smallest value that at least this share of all is not above, in nanoseconds. `None`
    /// without values.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        if self.buckets.is_empty() {
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

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// In nanoseconds; `None` without values.
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
            times.finish();
            for share in [0.01, 0.5, 0.99, 0.999, 1.0] {
                let exact = ((share * count as f64).ceil() as u64).max(1) * 1_000_003;
                let off = times.quantile(share).unwrap().abs_diff(exact) as f64 / exact as f64;
                assert!(
                    off < if count > 1000 { 0.001 } else { 1e-12 },
                    "{count} {share}"
                );
            }
            assert_eq!(times.max(), count * 1_000_003);
        }
        assert_eq!(Quantiles::default().quantile(0.5), None);
    }
}
