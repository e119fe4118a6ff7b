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
    let context = CallContext::default();
    let view = RetryView::new(&failure, now, &context).retries(retries);
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

#[test]
fn the_standard_is_three_attempts_and_has_no_settings() {
    let standard = Standard;
    assert_eq!(standard.max_attempts(), Some(3));
    assert_eq!(standard.on_deadline(), OnDeadline::Cap);
    for (retries, most) in [(0, 100), (1, 200), (20, 20_000)] {
        let delay = delay(&standard, retries).unwrap();
        assert!(delay <= Duration::from_millis(most), "{delay:?}");
    }
}

/// A view tells a strategy what its maker said, and of a first failure otherwise.
#[test]
fn a_view_can_be_made_up() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let then = Instant::now();
    let now = then + Duration::from_secs(1);
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let (context, backend) = (CallContext::default(), Backend::new("node-2"));
    let first = RetryView::new(&failure, now, &context);
    assert_eq!((first.retries, first.retries_since_pushback), (0, 0));
    assert_eq!((first.streak, first.streak_since), (1, now));
    assert_eq!((first.failing_since, first.previous_delay), (now, None));
    let later = first
        .retries(5)
        .retries_since_pushback(2)
        .streak(3, then)
        .failing_since(then)
        .previous_delay(Duration::from_millis(8))
        .backend(&backend);
    assert_eq!((later.retries, later.retries_since_pushback), (5, 2));
    assert_eq!((later.streak, later.streak_since), (3, then));
    assert_eq!(later.failing_since, then);
    assert_eq!(later.previous_delay, ms(8));
    assert_eq!(later.backend, Some(&backend));
}

/// C8
#[test]
fn retrying_at_once_is_not_the_same_as_stopping() {
    assert_eq!(delay(&Once, 0), ms(0));
    assert_eq!(delay(&FailFast, 0), None);
}

use crate::backoff::Backoff;
