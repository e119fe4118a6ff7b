//! What happened in a call: the summary for its caller.

mod display;

#[cfg(feature = "tokio")]
pub(crate) use display::tokens;

use crate::{AttemptRecord, RetryReason, StopReason};

/// The maximum number of records kept per call; older ones are dropped and counted.
pub const MOST_RECORDS: usize = 32;

/// The summary of a whole call. Bounded: counts per reason, and the last [`MOST_RECORDS`] records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryInfo {
    pub(crate) attempts: u32,
    pub(crate) transparent: u32,
    pub(crate) reasons: Vec<(RetryReason, u32)>,
    /// One entry per gate, so at most one for each variant of [`StopReason`].
    pub(crate) refused: Vec<(StopReason, u32)>,
    pub(crate) records: Vec<AttemptRecord>,
    pub(crate) dropped: u32,
    pub(crate) stopped: Option<StopReason>,
}

impl RetryInfo {
    /// Attempts sent, of every kind.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Counted attempts beyond the first: retries and hedges, without transparent ones.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.attempts
            .saturating_sub(1)
            .saturating_sub(self.transparent)
    }

    /// The set of reasons in order of first occurrence (RFC 0049, Request Annotation).
    pub fn reasons(&self) -> impl Iterator<Item = RetryReason> + '_ {
        self.reasons.iter().map(|(reason, _)| *reason)
    }

    /// How many attempts failed for this reason.
    #[must_use]
    pub fn count(&self, reason: RetryReason) -> u32 {
        self.reasons
            .iter()
            .find(|(r, _)| *r == reason)
            .map_or(0, |(_, n)| *n)
    }

    /// Why planned hedges were refused when they were due, in order of first occurrence: the
    /// throttle, a request that cannot be copied, a service that failed, a deadline, a pushback
    /// that arrived while they were being prepared.
    ///
    /// They were never attempts, so they have no records, even if the call then succeeded. Why a
    /// retry was refused is in the record of the failure before it.
    pub fn refusals(&self) -> impl Iterator<Item = StopReason> + '_ {
        self.refused.iter().map(|(by, _)| *by)
    }

    /// How many planned hedges were refused for this reason.
    #[must_use]
    pub fn refused(&self, by: StopReason) -> u32 {
        let seen = self.refused.iter().find(|(stopped, _)| *stopped == by);
        seen.map_or(0, |(_, n)| *n)
    }

    /// The last records, oldest first. A call that succeeds at once leaves none.
    pub fn records(
        &self,
    ) -> impl ExactSizeIterator<Item = &AttemptRecord> + DoubleEndedIterator + '_ {
        self.records.iter()
    }

    /// The number of records dropped to stay within the bound.
    #[must_use]
    pub const fn dropped_records(&self) -> u32 {
        self.dropped
    }

    /// Why no further attempt was made; `None` while the call is running.
    #[must_use]
    pub const fn stopped(&self) -> Option<StopReason> {
        self.stopped
    }
}
