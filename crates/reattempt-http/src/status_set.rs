//! A set of HTTP statuses.

use std::fmt;

/// Statuses have three digits (RFC 9110, section 15).
const MOST: u16 = 1000;
const WORDS: usize = MOST as usize / 64 + 1;

/// A set of HTTP statuses: 128 bytes, no allocation, a lookup is one shift.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatusSet([u64; WORDS]);

impl StatusSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The set of these statuses. Numbers above 999 are not statuses and are ignored.
    #[must_use]
    pub const fn of(statuses: &[u16]) -> Self {
        let mut set = Self::EMPTY;
        let mut at = 0;
        while at < statuses.len() {
            set = set.with(statuses[at]);
            at += 1;
        }
        set
    }

    /// Adds this status.
    #[must_use]
    pub const fn with(mut self, status: u16) -> Self {
        if status < MOST {
            self.0[status as usize / 64] |= 1 << (status % 64);
        }
        self
    }

    /// Removes this status.
    #[must_use]
    pub const fn without(mut self, status: u16) -> Self {
        if status < MOST {
            self.0[status as usize / 64] &= !(1 << (status % 64));
        }
        self
    }

    /// Whether it is in the set.
    #[must_use]
    pub const fn contains(&self, status: u16) -> bool {
        status < MOST && self.0[status as usize / 64] & (1 << (status % 64)) != 0
    }

    /// The statuses, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..MOST).filter(|status| self.contains(*status))
    }
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<u16> for StatusSet {
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Self {
        statuses.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in_and_nothing_else() {
        let set = StatusSet::of(&[408, 503, 599, 64000]).without(408);
        assert!(set.iter().eq([503, 599]));
        assert!(!set.contains(u16::MAX));
        assert_eq!(StatusSet::EMPTY.with(1000), StatusSet::EMPTY);
        assert_eq!(size_of::<StatusSet>(), 128);
    }
}
