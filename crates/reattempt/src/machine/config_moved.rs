//! A newer configuration moved what the call is about.

use std::time::Duration;

use super::FailedAttempt;

/// At most this many retries of one call are sent at once because a newer configuration moved the
/// key. A cluster that moves it with every response would otherwise receive requests at the speed
/// of the network without an end: the reason always retries.
pub(super) const MOST_NUDGED: u32 = 16;

impl FailedAttempt {
    /// Whether a newer configuration may end this delay early. A pushback is exact (A6, Pushback).
    pub(super) fn may_nudge(&self, delay: Duration) -> bool {
        self.facts.report.config_coming && self.facts.report.pushback.is_none() && !delay.is_zero()
    }

    /// Whether a newer configuration has already moved what the call is about. Then there is no
    /// delay but a pushback.
    pub(super) fn goes_at_once(&self, retries: u32) -> bool {
        self.facts.config_moved && self.facts.report.pushback.is_none() && retries < MOST_NUDGED
    }
}
