//! How a failure is built, and what it says about the server.

use super::{Failure, Transparent};
use crate::failure::reason::{CIRCUIT_BREAKER_OPEN, ReasonClass};
use crate::{RetryReason, Stage};

/// The reason says that the request was not sent, and the stage that it was.
const fn contradicts(reason: RetryReason, stage: Stage) -> bool {
    let unsent = matches!(reason.class(), ReasonClass::Unsent | ReasonClass::Request);
    matches!(stage, Stage::InFlight) && unsent
}

impl Failure {
    /// A failure with this reason in this stage: no code, not transparent, as safe as its reason
    /// says ([`RetryReason::allows_non_idempotent_retry`]). A reason that says that the request was
    /// not sent makes none safe that was ([`Stage::InFlight`]).
    #[must_use]
    pub const fn new(reason: RetryReason, stage: Stage) -> Self {
        Self {
            reason,
            stage,
            code: None,
            transparent: Transparent::No,
            safe: reason.allows_non_idempotent_retry() && !contradicts(reason, stage),
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
}
