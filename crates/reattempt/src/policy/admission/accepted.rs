//! Whether a server accepted a call, by what became of it.

use crate::failure::reason::ReasonClass;
use crate::{Failure, Stage, StopReason};

/// Whether a server accepted a call that ended like this: it succeeded, or its last failure is the
/// server's own, of another class than [`ReasonClass::Overload`], and not that no server took it
/// ([`ReasonDef::not_accepted`](crate::ReasonDef::not_accepted)). `None` if that is not known:
/// its caller dropped it, its deadline passed before an attempt was `sent`, a circuit breaker
/// refused it, or the request itself failed.
///
/// `last` is the last failure of an attempt that was sent, else the refusal; for
/// [`StopReason::Deadline`] only if that cut no attempt off: it ended a delay, or the next delay
/// did not fit.
#[must_use]
pub fn was_accepted(
    stopped: StopReason,
    sent: bool,
    last: impl FnOnce() -> Option<Failure>,
) -> Option<bool> {
    match stopped {
        StopReason::Success | StopReason::Committed => Some(true),
        StopReason::Cancelled | StopReason::Admission => None,
        StopReason::Deadline => match last() {
            Some(last) => is_accepted(&last),
            None => sent.then_some(false),
        },
        _ => is_accepted(&last()?),
    }
}

/// Whether a server had accepted a call whose last failure is this one.
pub(crate) fn is_accepted(last: &Failure) -> Option<bool> {
    match last.class() {
        _ if last.was_refused() => None,
        ReasonClass::Request => None,
        ReasonClass::Overload => Some(false),
        _ if last.reason.is_not_accepted() => Some(false),
        ReasonClass::Transient | ReasonClass::Unsent => Some(last.stage == Stage::Response),
    }
}
