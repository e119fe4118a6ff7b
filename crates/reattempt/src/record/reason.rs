//! What a recording keeps of a reason besides its name.

use crate::RetryReason;
use crate::failure::reason::{ReasonClass, ReasonDef};

const SAFE: u8 = 1;
const ALWAYS: u8 = 2;
const ANSWER: u8 = 4;
const NOT_ACCEPTED: u8 = 8;
const CLASS_SHIFT: u32 = 4;
/// All flags that there are.
pub(super) const ALL: u8 = 0x3f;

/// All that holds of a reason, in one byte.
pub(super) fn flags_of(reason: RetryReason) -> u8 {
    let flag = |holds: bool, flag| if holds { flag } else { 0 };
    let class: u8 = match reason.class() {
        ReasonClass::Transient => 0,
        ReasonClass::Overload => 1,
        ReasonClass::Unsent => 2,
        ReasonClass::Request => 3,
    };
    flag(reason.allows_non_idempotent_retry(), SAFE)
        | flag(reason.always_retry(), ALWAYS)
        | flag(reason.is_answer(), ANSWER)
        | flag(reason.is_not_accepted(), NOT_ACCEPTED)
        | class << CLASS_SHIFT
}

/// The definition of a reason with this name, of which this holds.
pub(super) const fn definition(name: &'static str, flags: u8) -> ReasonDef {
    let mut def = ReasonDef::new(name, flags & SAFE != 0, flags & ALWAYS != 0);
    if flags & ANSWER != 0 {
        def = def.answer();
    }
    if flags & NOT_ACCEPTED != 0 {
        def = def.not_accepted();
    }
    match (flags >> CLASS_SHIFT) & 3 {
        1 => def.overload(),
        2 => def.unsent(),
        3 => def.request(),
        _ => def,
    }
}
