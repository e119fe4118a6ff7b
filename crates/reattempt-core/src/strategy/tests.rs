use std::time::{Duration, Instant};

use super::*;
use crate::Stage;
use crate::reason::KV_TEMPORARY_FAILURE;

fn delay(strategy: &dyn RetryStrategy, retries: u32) -> Option<Duration> {
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = Instant::now();
    let view = RetryView {
        failure: &failure,
        now,
        retries,
        retries_since_pushback: retries,
        streak: 1,
        streak_since: now,
        failing_since: now,
        previous_delay: None,
        backend: None,
        context: &CallContext::default(),
    };
    match strategy.decide(&view) {
        Decision::After(delay) => Some(delay),
        _ => None,
    }
}

const fn ms(n: u64) -> Option<Duration> {
    Some(Duration::from_millis(n))
}

/// C4
#[test]
fn best_effort_waits_from_1_to_500_ms() {
    let best_effort = BestEffort::new();
    let delays: Vec<_> = (0..11).map(|n| delay(&best_effort, n)).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500].map(ms));
}

/// C4
#[test]
fn best_effort_takes_another_backoff() {
    let slow = BestEffort::with_backoff(Backoff::constant(Duration::from_millis(7)));
    assert_eq!(delay(&slow, 5), ms(7));
}

/// C5
#[test]
fn controlled_backoff_waits_by_the_retries_already_made() {
    let delays: Vec<_> = (0..7).map(|n| delay(&ControlledBackoff, n)).collect();
    assert_eq!(delays, [1, 10, 50, 100, 500, 1000, 1000].map(ms));
}

/// C8
#[test]
fn retrying_at_once_is_not_the_same_as_stopping() {
    assert_eq!(delay(&Once, 0), ms(0));
    assert_eq!(delay(&FailFast, 0), None);
}

use crate::backoff::Backoff;
