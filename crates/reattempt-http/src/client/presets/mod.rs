//! Presets for single APIs: [`HttpClientLayer::standard`] with what each API publishes.

mod github;
mod google;
mod kubernetes;
mod llm;
#[cfg(test)]
mod tests;

use std::time::Duration;

use reattempt::OnDeadline;
use reattempt::backoff::{Backoff, Jitter};
use reattempt::strategy::MaxAttempts;

use super::HttpClientLayer;
use crate::StatusSet;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A delay that does not fit before the deadline is not begun.
const fn at_most(attempts: u32, backoff: Backoff) -> MaxAttempts {
    MaxAttempts::new(attempts, backoff).on_deadline(OnDeadline::GiveUp)
}

const fn full_jitter(initial: Duration, max: Duration) -> Backoff {
    Backoff::exponential(initial, max).jitter(Jitter::Full)
}

/// These statuses and every 5xx.
fn and_every_5xx(statuses: &[u16]) -> StatusSet {
    statuses.iter().copied().chain(500..600).collect()
}
