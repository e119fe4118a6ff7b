//! Fail fast (RFC 0049, Fail Fast).

use super::{Decision, RetryStrategy, RetryView};

/// Never retries: only always-retry reasons and transparent retries send another attempt (RFC 0049,
/// Fail Fast).
///
/// The strategy of the policy "no recovery" and of commands such as a configuration poll. To fail
/// fast for single reasons, extend [`BestEffort`](super::BestEffort) with
/// [`Extended`](super::Extended).
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverRetry;

impl RetryStrategy for NeverRetry {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Stop
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(1)
    }
}
