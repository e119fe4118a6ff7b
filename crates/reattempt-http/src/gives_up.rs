//! When a call has given up for the hops before it.

use reattempt::StopReason;

/// Whether a call that stopped for this reason, after this many retries, has given up: then an
/// attempt of another hop would multiply the attempts, and the response is marked (see the module
/// `hop`).
///
/// It has if the throttle, an `AdmissionLayer` or the response of the next service stopped it (also
/// one that asks for a longer delay than the cap), or if it failed, ended at its deadline or was
/// dropped there after at least one retry. A failure that was not retried for another reason is
/// left to the policy of the hop before.
#[must_use]
pub const fn gives_up(stopped: StopReason, retries: u32) -> bool {
    match stopped {
        StopReason::Success | StopReason::Committed => false,
        StopReason::Throttled | StopReason::Pushback | StopReason::Admission => true,
        _ => retries > 0,
    }
}
