//! Failing at once, for inner use (RFC 0049, Fail Fast).

use super::{Decision, RetryStrategy, RetryView};

/// **Internal** (RFC 0049, Fail Fast): never retries, save for reasons that always do. Used where a
/// policy says "no recovery", and by commands such as a configuration poll. Applications are better
/// served by extending `BestEffort` for single reasons.
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
