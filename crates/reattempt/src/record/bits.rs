//! Fields of a few bits, and times of a few bytes.

use std::time::Duration;

/// Fields in one word, written and read in the same order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bits {
    word: u64,
    at: u32,
}

impl Bits {
    pub(super) const fn of(word: u64) -> Self {
        Self { word, at: 0 }
    }

    pub(super) const fn word(self) -> u64 {
        self.word
    }

    pub(super) fn put(&mut self, value: u64, width: u32) {
        // A value that does not fit is the largest that does.
        self.word |= value.min((1 << width) - 1) << self.at;
        self.at += width;
    }

    pub(super) const fn take(&mut self, width: u32) -> u64 {
        let value = (self.word >> self.at) & ((1 << width) - 1);
        self.at += width;
        value
    }
}

/// No time: all ones.
const fn none(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A time with a unit of two bits, rounded down.
pub(super) fn scaled(time: Option<Duration>, bits: u32, units: [u64; 4]) -> u64 {
    let Some(time) = time else {
        return none(bits);
    };
    let most = 1_u128 << (bits - 2);
    for (unit, nanos) in units.iter().enumerate() {
        let count = time.as_nanos() / u128::from(*nanos);
        // The last value of the last unit stands for none.
        if count < most - 1 {
            return count as u64 | (unit as u64) << (bits - 2);
        }
    }
    none(bits) - 1
}

pub(super) const fn unscaled(value: u64, bits: u32, units: [u64; 4]) -> Option<Duration> {
    if value == none(bits) {
        return None;
    }
    let count = value & none(bits - 2);
    let unit = units[(value >> (bits - 2)) as usize & 3];
    Some(Duration::from_nanos(count.saturating_mul(unit)))
}

/// Nanoseconds to seconds.
pub(super) const FINE: [u64; 4] = [1, 1000, 1_000_000, 1_000_000_000];
/// Milliseconds to hours, for pushbacks.
pub(super) const COARSE: [u64; 4] = [1_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_in_the_finest_unit_that_holds_them() {
        for nanos in [0, 1, 999_999_999, (1 << 38) - 2] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(unscaled(scaled(Some(time), 40, FINE), 40, FINE), Some(time));
        }
        let hour = Duration::from_nanos(3_600_000_000_123);
        let kept = unscaled(scaled(Some(hour), 40, FINE), 40, FINE);
        assert_eq!(kept, Some(Duration::from_micros(3_600_000_000)));
        assert_eq!(unscaled(scaled(None, 40, FINE), 40, FINE), None);
        assert!(unscaled(scaled(Some(Duration::MAX), 40, FINE), 40, FINE).is_some());
        let day = Duration::from_secs(86_400);
        assert_eq!(
            unscaled(scaled(Some(day), 24, COARSE), 24, COARSE),
            Some(day)
        );
    }

    #[test]
    fn a_value_too_large_does_not_touch_its_neighbours() {
        let mut bits = Bits::default();
        for (value, width) in [(1, 2), (500, 3), (2, 2)] {
            bits.put(value, width);
        }
        let mut read = Bits::of(bits.word());
        assert_eq!([2, 3, 2].map(|width| read.take(width)), [1, 7, 2]);
    }
}
