//! What happened in a call: attempt records and the summary for callers.

mod backend;
mod display;

use std::time::{Duration, Instant};

pub use backend::Backend;
#[cfg(feature = "tokio")]
pub(crate) use display::tokens;

use crate::{CallContext, Failure, RetryReason, ServerPushback};

/// The maximum number of records kept per call; older ones are dropped and counted.
pub const MOST_RECORDS: usize = 32;

/// The maximum number of distinct reasons counted per call.
const MOST_REASONS: usize = 16;

/// Why an attempt was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    /// The first attempt of its call.
    #[default]
    Initial,
    /// Sent after a failure.
    Retry,
    /// Sent while others are still in flight.
    Hedge,
    /// Sent after a failure that the server's application never saw; not counted.
    Transparent,
}

impl AttemptKind {
    /// The name in logs and in the program's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
            Self::Transparent => "transparent",
        }
    }
}

/// Why no further attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// It succeeded.
    Success,
    /// The classifier treats the failure as fatal.
    Fatal,
    /// The maximum number of attempts was made.
    Attempts,
    /// The strategy refused, or failed.
    Strategy,
    /// The request is not idempotent and may have been carried out.
    NotIdempotent,
    /// The server asked for no retry, or a layer forbade another attempt
    /// ([`AttemptReporter::forbid`](crate::AttemptReporter::forbid)), in which case the record has
    /// no pushback.
    Pushback,
    /// The throttle refused.
    Throttled,
    /// The delay did not fit before the deadline, or the deadline passed.
    Deadline,
    /// The response is committed.
    Committed,
    /// The request could not be copied.
    NotReplayable,
    /// The caller dropped the call.
    Cancelled,
    /// An [`AdmissionLayer`](crate::AdmissionLayer) refused the call: nothing was sent.
    NotAdmitted,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Success,
        Self::Fatal,
        Self::Attempts,
        Self::Strategy,
        Self::NotIdempotent,
        Self::Pushback,
        Self::Throttled,
        Self::Deadline,
        Self::Committed,
        Self::NotReplayable,
        Self::Cancelled,
        Self::NotAdmitted,
    ];

    /// The name in logs and in the program's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Fatal => "fatal",
            Self::Attempts => "attempts",
            Self::Strategy => "strategy",
            Self::NotIdempotent => "not_idempotent",
            Self::Pushback => "pushback",
            Self::Throttled => "throttled",
            Self::Deadline => "deadline",
            Self::Committed => "committed",
            Self::NotReplayable => "not_replayable",
            Self::Cancelled => "cancelled",
            Self::NotAdmitted => "not_admitted",
        }
    }

    pub(crate) const fn to_byte(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let at = usize::from(byte).checked_sub(1)?;
        Self::ALL.get(at).copied()
    }
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// It succeeded.
    Success,
    /// Its response is committed; the rest decides later.
    Committed,
    /// It failed with a fatal failure.
    Fatal,
    /// It failed in a way that a retry might fix.
    Retry,
    /// It was dropped before it ended: a losing hedge, a deadline, a cancelled call. With a
    /// failure: the request cut the attempt off because another attempt continues alone.
    Cancelled,
}

impl AttemptOutcome {
    /// The name in logs and in the program's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Committed => "committed",
            Self::Fatal => "fatal",
            Self::Retry => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One attempt and the decision that followed it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The attempt number; the first is 1.
    pub number: u32,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The server's pushback.
    pub pushback: Option<ServerPushback>,
    /// The server's pushback could not be parsed and counted as none.
    pub pushback_unreadable: bool,
    /// The delay chosen before the next attempt.
    pub delay: Option<Duration>,
    /// The gate that refused a further attempt.
    pub stopped: Option<StopReason>,
    /// Where it was sent, if the transport reported it.
    pub backend: Option<Backend>,
    /// When it ended, if the clock was read (it is not for a success).
    pub ended: Option<Instant>,
    /// The throttle's fill after this attempt was counted, in thousandths of a token.
    pub milli_tokens: Option<u64>,
}

impl AttemptRecord {
    /// A record of an attempt that ended like this, and nothing more.
    #[must_use]
    pub const fn new(number: u32, kind: AttemptKind, outcome: AttemptOutcome) -> Self {
        Self {
            number,
            kind,
            outcome,
            failure: None,
            pushback: None,
            pushback_unreadable: false,
            delay: None,
            stopped: None,
            backend: None,
            ended: None,
            milli_tokens: None,
        }
    }
}

impl AttemptRecord {
    /// The record of an attempt that succeeded, or whose response is committed.
    pub(crate) fn of_success(context: &CallContext, committed: bool) -> Self {
        let (outcome, stopped) = if committed {
            (AttemptOutcome::Committed, StopReason::Committed)
        } else {
            (AttemptOutcome::Success, StopReason::Success)
        };
        let mut record = Self::new(context.attempt(), context.kind(), outcome);
        record.backend = context.backend();
        record.stopped = Some(stopped);
        record
    }
}

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
    pub(crate) fn count_reason(&mut self, reason: RetryReason) {
        if let Some(seen) = self.reasons.iter_mut().find(|(r, _)| *r == reason) {
            seen.1 = seen.1.saturating_add(1);
        } else if self.reasons.len() < MOST_REASONS {
            self.reasons.push((reason, 1));
        }
    }

    pub(crate) fn count_refused(&mut self, stopped: StopReason) {
        match self.refused.iter_mut().find(|(by, _)| *by == stopped) {
            Some(seen) => seen.1 = seen.1.saturating_add(1),
            None => self.refused.push((stopped, 1)),
        }
    }

    pub(crate) fn push(&mut self, record: AttemptRecord, reason: Option<RetryReason>) {
        if let Some(reason) = reason {
            self.count_reason(reason);
        }
        if self.records.len() == MOST_RECORDS {
            self.records.remove(0);
            self.dropped = self.dropped.saturating_add(1);
        }
        self.records.push(record);
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use crate::failure::reason::KV_LOCKED;

    #[test]
    fn of_many_records_the_last_are_kept_and_the_others_counted() {
        let mut info = RetryInfo::default();
        let most = u32::try_from(MOST_RECORDS).unwrap();
        for number in 1..=most + 5 {
            let outcome = AttemptOutcome::Retry;
            let mut record = AttemptRecord::new(number, AttemptKind::Retry, outcome);
            record.failure = Some(Failure::new(KV_LOCKED, Stage::Response));
            info.push(record, Some(KV_LOCKED));
            assert_eq!(info.dropped_records(), number.saturating_sub(most));
        }
        assert!(info.records().map(|record| record.number).eq(6..=most + 5));
        assert_eq!(info.count(KV_LOCKED), most + 5, "dropped records count");
    }
}
