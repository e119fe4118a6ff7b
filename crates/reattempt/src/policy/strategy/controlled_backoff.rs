//! The controlled back-off of RFC 0049.

use super::{Decision, RetryStrategy, RetryView};
use crate::policy::backoff::Backoff;

/// Retries until the deadline after 1, 10, 50, 100, 500, then 1000 ms (RFC 0049, Controlled Backoff
/// for Always Retry). Always-retry reasons use its delays under every strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlledBackoff;

impl RetryStrategy for ControlledBackoff {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        Decision::After(Backoff::controlled().delay(view.retries, None))
    }
}
