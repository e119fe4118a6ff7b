//! The failure that is kept between two attempts.

use crate::machine::Asked;

/// What the call may return if no other attempt follows.
pub(super) enum Kept<O> {
    /// The one that a gate still ahead may return.
    Failure(O),
    /// The one about which the strategy still decides.
    Undecided(Box<Undecided<O>>),
}

impl<O> Kept<O> {
    /// The failure that a gate returns.
    pub(super) fn failure(self) -> Option<O> {
        match self {
            Self::Failure(failure) => Some(failure),
            Self::Undecided(_) => None,
        }
    }
}

/// What the strategy was asked, and the outcome that it is about.
pub(super) struct Undecided<O> {
    pub(super) asked: Box<Asked>,
    pub(super) outcome: O,
    /// The failure that the strategy holds.
    pub(super) held: Option<O>,
}
