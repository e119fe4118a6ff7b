//! Which attempts of a call are in flight, or were lost there.

use super::{CLAIMED, CallState, LOST, OVER, SENT_MASK};
use crate::attempt::AttemptRecord;
use crate::sync::Ordering;
use crate::{AttemptOutcome, Stage, Transparent};

impl CallState {
    /// An attempt ended, as its record says or is going to say.
    pub(crate) fn remember_lost(&self, record: &AttemptRecord) {
        if is_lost(record) {
            self.flags.fetch_or(LOST, Ordering::Relaxed);
        }
    }

    /// True if an attempt that ended was lost in flight.
    pub(crate) fn has_lost(&self) -> bool {
        self.has(LOST)
    }

    /// True if an attempt is in flight that may have left the client.
    pub(crate) fn in_flight(&self) -> bool {
        let mut progress = self.progress();
        loop {
            if progress & CLAIMED == 0 {
                return true;
            }
            if progress & OVER != 0 {
                return false;
            }
            if self.slots.any_may_have_left((progress & SENT_MASK) as u32) {
                return true;
            }
            // The caller may be on another thread: a further attempt may have been sent before the
            // ones already checked ended. It was counted before they ended, and the slots are read
            // with acquire ordering.
            let before = std::mem::replace(&mut progress, self.progress());
            if before == progress {
                return false;
            }
        }
    }
}

/// Whether the server may have carried out the attempt although nothing is known of it: it was
/// lost or given up in flight.
fn is_lost(record: &AttemptRecord) -> bool {
    match record.failure {
        Some(failure) => failure.stage == Stage::InFlight && failure.transparent == Transparent::No,
        None => record.outcome == AttemptOutcome::Cancelled,
    }
}
