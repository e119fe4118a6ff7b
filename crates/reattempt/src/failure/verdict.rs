//! The result of one attempt.

use crate::{RetryReason, Stage};

/// Whether a failure may be retried without counting as a retry (A6, Transparent Retries).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transparent {
    /// The server's application may have seen the request: the policy decides.
    #[default]
    No,
    /// It reached the server but not its application (REFUSED_STREAM): retried once per call.
    Once,
    /// The connection was lost, and the attempt never left the client if its request body was never
    /// read ([`Replay::was_unread`](crate::Replay::was_unread)). In that case as
    /// [`Transparent::Unlimited`], in the stage [`Stage::Dispatch`] and safe for any request;
    /// otherwise as [`Transparent::No`].
    IfUnread,
    /// No connection could be made: retried at once while there is a backend that the call has not
    /// tried ([`AttemptReport::untried_backend`](crate::AttemptReport::untried_backend)), at most
    /// [`MOST_RECORDS`](crate::MOST_RECORDS) times; otherwise as [`Transparent::No`].
    NextBackend,
    /// It never left the client: retried until the deadline.
    Unlimited,
}

/// Why and where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Failure {
    /// The reason, from the vocabulary that all protocols share.
    pub reason: RetryReason,
    /// How far the attempt came.
    pub stage: Stage,
    /// The protocol's own code (gRPC code, HTTP or KV status, MongoDB code), if there was one.
    pub code: Option<i32>,
    /// Whether it may be retried without being counted.
    pub transparent: Transparent,
    /// True if even a non-idempotent request may be sent again.
    pub safe: bool,
    /// True if the server failed although the reason is one of answers
    /// ([`RetryReason::is_answer`]): an internal error that has no reason of its own.
    pub server_failed: bool,
    /// What the protocol adds: its classifier writes it, its strategies read it, and nothing else
    /// looks at it. 0 if there is nothing.
    pub extension: u32,
}

/// A classifier's verdict on one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It succeeded. Counted as a success; the response goes to the caller.
    Success,
    /// The head of the response has arrived and the rest decides later (a gRPC status in trailers):
    /// no further attempt, and nothing is counted yet (A6, When Retries are Valid). On a call
    /// with a throttle a layer below the recovery layer has to report how it ends: see
    /// [`AttemptReporter::finish`](crate::AttemptReporter::finish).
    Committed,
    /// It failed, and a retry would not help: the failure goes to the caller.
    ///
    /// If it is the server's answer to the request (not found, for example), give its reason
    /// [`answer`](crate::retry_reasons): otherwise it counts against the backend.
    Fatal(Failure),
    /// It failed, and a retry may help.
    Retry(Failure),
}

impl Verdict {
    /// The failure, if there is one.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success | Self::Committed => None,
            Self::Fatal(failure) | Self::Retry(failure) => Some(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every failed attempt copies it.
    #[test]
    fn a_failure_is_three_words() {
        assert_eq!(size_of::<Failure>(), 24);
        assert_eq!(size_of::<Verdict>(), 32);
    }
}
