//! What a strategy was asked, and answers later.

use crate::attempt::FailedAttempt;
use crate::policy::strategy::Deferred;

/// A decision that the strategy finishes later.
pub struct Asked {
    /// The strategy's future.
    pub deferred: Deferred,
    /// The attempt that it is about.
    pub failed: FailedAttempt,
    /// The throttle's answer to its failure.
    pub(super) allowed: bool,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut asked = f.debug_struct("Asked");
        asked.field("failed", &self.failed).finish_non_exhaustive()
    }
}
