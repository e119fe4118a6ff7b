//! An attempt that a circuit breaker refused.

use super::{Facts, FailedAttempt};
use crate::failure::reason::CIRCUIT_BREAKER_OPEN;
use crate::{Failure, Stage, Transparent};

impl FailedAttempt {
    /// An attempt that a circuit breaker refused. It may go to another backend, at once to one that
    /// was not tried. Without another one it is not retryable, unless its protocol `waits` for the
    /// circuit to close.
    pub(super) fn refused(facts: &Facts, code: Option<i32>, waits: bool) -> Self {
        let transparent = if facts.report.untried_backend {
            Transparent::NextBackend
        } else {
            Transparent::No
        };
        let mut failure = Failure::new(CIRCUIT_BREAKER_OPEN, Stage::Dispatch);
        (failure.code, failure.transparent) = (code, transparent);
        Self::known(facts, failure, waits || facts.other_backend)
    }
}
