//! Which attempt of a call, and the slot that its reports go to.

use crate::policy::MOST_HEDGED_ATTEMPTS;

/// The maximum number of attempts of one call that can be in flight and still report.
pub(crate) const SLOTS: usize = MOST_HEDGED_ATTEMPTS as usize;

/// An attempt's number and the slot assigned to it.
///
/// The slot does not follow from the number: transparent and forced retries continue past [`SLOTS`]
/// while an early attempt may still be in flight, and none may take a slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptKey {
    pub(crate) attempt: u32,
    pub(crate) slot: u8,
}
