//! The result of one attempt.

use crate::failure::reason::{CIRCUIT_BREAKER_OPEN, ReasonClass};
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

impl Failure {
    /// A failure with this reason in this stage: no code, not transparent, as safe as its reason
    /// says ([`RetryReason::allows_non_idempotent_retry`]).
    #[must_use]
    pub const fn new(reason: RetryReason, stage: Stage) -> Self {
        Self {
            reason,
            stage,
            code: None,
            transparent: Transparent::No,
            safe: reason.allows_non_idempotent_retry(),
            server_failed: false,
            extension: 0,
        }
    }

    /// What the failure says about the server: the class of its reason, but for an attempt that was
    /// never sent ([`Stage::Dispatch`]) [`ReasonClass::Unsent`], unless the request is to blame.
    #[must_use]
    pub const fn class(&self) -> ReasonClass {
        match (self.stage, self.reason.class()) {
            (Stage::Dispatch, ReasonClass::Overload | ReasonClass::Transient) => {
                ReasonClass::Unsent
            }
            (_, class) => class,
        }
    }

    /// The server answered the request (not found, invalid argument), and not that it failed.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        matches!(self.stage, Stage::Response) && self.reason.is_answer() && !self.server_failed
    }

    /// A circuit breaker refused the attempt: it was never sent.
    pub(crate) fn was_refused(&self) -> bool {
        self.reason == CIRCUIT_BREAKER_OPEN && self.stage == Stage::Dispatch
    }

    /// Sets the protocol's own code.
    #[must_use]
    pub const fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets what the protocol adds.
    #[must_use]
    pub const fn with_extension(mut self, extension: u32) -> Self {
        self.extension = extension;
        self
    }

    /// Sets whether it may be retried without being counted.
    #[must_use]
    pub const fn transparent(mut self, transparent: Transparent) -> Self {
        self.transparent = transparent;
        self
    }

    /// Sets whether the server failed, which is otherwise the reason's to say.
    #[must_use]
    pub const fn server_failed(mut self, failed: bool) -> Self {
        self.server_failed = failed;
        self
    }

    /// Overrides the reason: whether the request is known to have had no effect.
    #[must_use]
    pub const fn safe(mut self, safe: bool) -> Self {
        self.safe = safe;
        self
    }
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

    #[test]
    fn the_class_of_a_failure_depends_on_how_far_it_came() {
        use crate::failure::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE};

        let class = |reason, stage| Failure::new(reason, stage).class();
        assert_eq!(class(KV_LOCKED, Stage::Dispatch), ReasonClass::Unsent);
        assert_eq!(class(KV_LOCKED, Stage::Response), ReasonClass::Transient);
        let busy = KV_TEMPORARY_FAILURE;
        assert_eq!(class(busy, Stage::Response), ReasonClass::Overload);
        assert_eq!(class(busy, Stage::InFlight), ReasonClass::Overload);
        assert_eq!(class(busy, Stage::Dispatch), ReasonClass::Unsent);
        let gone = NODE_NOT_AVAILABLE;
        assert_eq!(class(gone, Stage::Response), ReasonClass::Unsent);
    }

    #[test]
    fn a_server_that_failed_gave_no_answer() {
        use crate::failure::reason::UNKNOWN;

        let answer = Failure::new(UNKNOWN, Stage::Response);
        assert!(answer.is_answer());
        assert!(!answer.server_failed(true).is_answer());
        assert!(!Failure::new(UNKNOWN, Stage::InFlight).is_answer());
    }

    /// Every failed attempt copies it.
    #[test]
    fn a_failure_is_three_words() {
        assert_eq!(size_of::<Failure>(), 24);
        assert_eq!(size_of::<Verdict>(), 32);
    }
}
