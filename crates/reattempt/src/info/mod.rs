//! What happened in a call: the summary for its caller.

mod display;

#[cfg(feature = "tokio")]
pub(crate) use display::tokens;

use crate::{AttemptOutcome, AttemptRecord, RetryReason, StopReason};

/// The maximum number of records kept per call; older ones are dropped and counted.
pub const MOST_RECORDS: usize = 32;

/// The maximum number of distinct reasons counted per call.
const MOST_REASONS: usize = 16;

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

/// How the call writes it.
impl RetryInfo {
    /// An attempt failed for this reason.
    pub(crate) fn count_reason(&mut self, reason: RetryReason) {
        if let Some(seen) = self.reasons.iter_mut().find(|(r, _)| *r == reason) {
            seen.1 = seen.1.saturating_add(1);
        } else if self.reasons.len() < MOST_REASONS {
            self.reasons.push((reason, 1));
        }
    }

    /// An attempt ended.
    pub(crate) fn push(&mut self, record: &AttemptRecord) {
        // A final failure is no reason to retry.
        if let (AttemptOutcome::Retry, Some(failure)) = (record.outcome, &record.failure) {
            self.count_reason(failure.reason);
        }
        if self.records.len() == MOST_RECORDS {
            self.records.remove(0);
            self.dropped = self.dropped.saturating_add(1);
        }
        // Cloned in place.
        self.records.extend_from_slice(std::slice::from_ref(record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::reason::KV_LOCKED;
    use crate::{AttemptKind, Failure, Stage};

    #[test]
    fn of_many_records_the_last_are_kept_and_the_others_counted() {
        let mut info = RetryInfo::default();
        let most = u32::try_from(MOST_RECORDS).unwrap();
        for number in 1..=most + 5 {
            let outcome = AttemptOutcome::Retry;
            let mut record = AttemptRecord::new(number, AttemptKind::Retry, outcome);
            record.failure = Some(Failure::new(KV_LOCKED, Stage::Response));
            info.push(&record);
            assert_eq!(info.dropped_records(), number.saturating_sub(most));
        }
        assert!(info.records().map(|record| record.number).eq(6..=most + 5));
        assert_eq!(info.count(KV_LOCKED), most + 5, "dropped records count");
    }
}
