//! Sets of codes.

use std::fmt;

use crate::Code;

/// A set of status codes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CodeSet(u32);

impl CodeSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of these codes.
    #[must_use]
    pub const fn of(codes: &[Code]) -> Self {
        let mut set = Self::EMPTY;
        let mut at = 0;
        while at < codes.len() {
            set = set.with(codes[at]);
            at += 1;
        }
        set
    }

    /// Adds this code.
    #[must_use]
    pub const fn with(self, code: Code) -> Self {
        Self(self.0 | 1 << code as u8)
    }

    /// Returns true if the code is in the set.
    #[must_use]
    pub const fn contains(self, code: Code) -> bool {
        self.0 & (1 << code as u8) != 0
    }

    /// Returns true for the empty set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The codes, in order.
    pub fn iter(self) -> impl Iterator<Item = Code> {
        Code::ALL
            .into_iter()
            .filter(move |code| self.contains(*code))
    }
}

impl fmt::Debug for CodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<Code> for CodeSet {
    fn from_iter<I: IntoIterator<Item = Code>>(codes: I) -> Self {
        codes.into_iter().fold(Self::EMPTY, Self::with)
    }
}
