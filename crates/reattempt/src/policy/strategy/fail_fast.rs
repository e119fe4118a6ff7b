//! Fail fast, for internal use (RFC 0049, Fail Fast).

use super::{Decision, RetryStrategy, RetryView};

/// **Internal** (RFC 0049, Fail Fast): never retries, except for always-retry reasons. Used for the
/// policy "no recovery", and by commands such as a configuration poll. Applications should extend
/// `BestEffort` for single reasons instead.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailFast;

impl RetryStrategy for FailFast {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Stop
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(1)
    }
}
