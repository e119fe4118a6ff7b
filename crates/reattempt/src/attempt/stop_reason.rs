//! Why no further attempt was made.

/// Why no further attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// The server asked for no retry, or for a longer delay than the client waits; or a layer
    /// forbade another attempt ([`AttemptReporter::forbid`](crate::AttemptReporter::forbid)), in
    /// which case the record may have no pushback.
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
    Admission,
}

impl StopReason {
    /// All of them.
    pub const ALL: &'static [Self] = &[
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
        Self::Admission,
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
            Self::Admission => "admission",
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
