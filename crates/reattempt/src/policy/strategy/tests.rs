use std::time::{Duration, Instant};

use super::*;
use crate::failure::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE, SOCKET_NOT_AVAILABLE};
use crate::policy::backoff::Backoff;
use crate::{RetryReason, Stage};

fn delay(strategy: &dyn RetryStrategy, retries: u32) -> Option<Duration> {
    delay_for(strategy, KV_TEMPORARY_FAILURE, retries)
}

fn delay_for(strategy: &dyn RetryStrategy, reason: RetryReason, retries: u32) -> Option<Duration> {
    let failure = Failure::new(reason, Stage::Response);
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = Instant::now();
    let view = RetryView::new(&failure, now).retries(retries);
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

/// C7
#[test]
fn best_effort_waits_for_the_deadline_unless_it_gives_up() {
    let capped = BestEffort::new();
    assert_eq!(RetryStrategy::on_deadline(&capped), Some(OnDeadline::Cap));
    let gives_up = capped.on_deadline(OnDeadline::GiveUp);
    assert_eq!(
        RetryStrategy::on_deadline(&gives_up),
        Some(OnDeadline::GiveUp)
    );
}

/// Without a setting the protocol decides: it gives up, unless its specification caps.
#[test]
fn a_maximum_of_attempts_leaves_the_deadline_to_the_protocol() {
    let attempts = MaxAttempts::standard();
    let open: [&dyn RetryStrategy; 2] = [&attempts, &RetryOnce];
    assert!(open.iter().all(|strategy| strategy.on_deadline().is_none()));
    for choice in [OnDeadline::Cap, OnDeadline::GiveUp] {
        let set = attempts.clone().on_deadline(choice);
        assert_eq!(RetryStrategy::on_deadline(&set), Some(choice));
    }
    let capped: [&dyn RetryStrategy; 2] = [&NeverRetry, &ControlledBackoff];
    let cap = Some(OnDeadline::Cap);
    assert!(capped.iter().all(|strategy| strategy.on_deadline() == cap));
}

/// C4
#[test]
fn best_effort_takes_another_backoff() {
    let slow = BestEffort::with_backoff(Backoff::constant(Duration::from_millis(7)));
    assert_eq!(delay(&slow, 5), ms(7));
    let most = Duration::from_millis(300);
    let own = Backoff::calculated(|n| Duration::from_millis(100) * n, most);
    let own = BestEffort::with_backoff(own);
    let delays: Vec<_> = (0..5).map(|n| delay(&own, n)).collect();
    assert_eq!(delays, [0, 100, 200, 300, 300].map(ms));
}

/// C3, RFC 0049, Fail Fast: best effort except for single reasons.
#[test]
fn a_strategy_extends_another_for_single_reasons() {
    let slow = |ms| BestEffort::with_backoff(Backoff::constant(Duration::from_millis(ms)));
    let extended = Extended::new(BestEffort::new())
        .never(KV_LOCKED)
        .by(SOCKET_NOT_AVAILABLE, NeverRetry)
        .by(SOCKET_NOT_AVAILABLE, slow(70));
    for (reason, delays) in [
        (KV_LOCKED, [None, None, None]),
        (SOCKET_NOT_AVAILABLE, [70, 70, 70].map(ms)),
        (KV_TEMPORARY_FAILURE, [1, 2, 4].map(ms)),
    ] {
        let of_reason = [0, 1, 2].map(|retries| delay_for(&extended, reason, retries));
        assert_eq!(of_reason, delays, "{reason}");
    }
    assert_eq!(extended.max_attempts(), None);
}

/// Each strategy has its own maximum; the extended strategy decides all other reasons.
#[test]
fn of_several_strategies_the_most_attempts_bound_the_call() {
    let times = |max| MaxAttempts::new(max, Backoff::constant(Duration::from_millis(5)));
    let extended = Extended::new(times(4).on_deadline(OnDeadline::GiveUp)).by(KV_LOCKED, times(2));
    for (reason, again) in [(KV_LOCKED, 1), (KV_TEMPORARY_FAILURE, 3)] {
        let delays = (0..9).map_while(|retries| delay_for(&extended, reason, retries));
        assert_eq!(delays.count(), again, "{reason}");
    }
    let extended = Extended::new(times(4).on_deadline(OnDeadline::GiveUp)).by(KV_LOCKED, times(6));
    assert_eq!(extended.max_attempts(), Some(6));
    assert_eq!(extended.on_deadline(), Some(OnDeadline::GiveUp));
    assert_eq!(extended.clone().never(KV_LOCKED).max_attempts(), Some(4));
    assert_eq!(
        extended.by(KV_LOCKED, BestEffort::new()).max_attempts(),
        None
    );
}

/// One that does not look at the attempts itself, as the machine does not ask it after its maximum.
#[test]
fn the_maximum_of_a_strategy_within_another_is_kept() {
    #[derive(Debug)]
    struct Twice;
    impl RetryStrategy for Twice {
        fn decide(&self, _: &RetryView<'_>) -> Decision {
            Decision::After(Duration::ZERO)
        }
        fn max_attempts(&self) -> Option<u32> {
            Some(2)
        }
    }
    let extended = Extended::new(BestEffort::new()).by(KV_LOCKED, Twice);
    let delays = [0, 1, 2].map(|retries| delay_for(&extended, KV_LOCKED, retries));
    assert_eq!(delays, [Some(Duration::ZERO), None, None]);
}

/// The choice of the returned failure does not depend on the reason.
#[test]
fn the_extended_strategy_chooses_the_returned_failure() {
    #[derive(Debug)]
    struct First;
    impl RetryStrategy for First {
        fn decide(&self, _: &RetryView<'_>) -> Decision {
            Decision::Stop
        }
        fn holds(&self) -> bool {
            true
        }
        fn surface(&self, _: &Failure, _: &Failure) -> Surface {
            Surface::Held
        }
    }
    let failure = Failure::new(KV_LOCKED, Stage::Response);
    let extended = Extended::new(First).by(KV_LOCKED, RetryOnce);
    assert!(extended.holds());
    assert_eq!(extended.surface(&failure, &failure), Surface::Held);
    assert!(!Extended::new(RetryOnce).by(KV_LOCKED, First).holds());
}

/// C5
#[test]
fn controlled_backoff_waits_by_the_retries_already_made() {
    let delays: Vec<_> = (0..7).map(|n| delay(&ControlledBackoff, n)).collect();
    assert_eq!(delays, [1, 10, 50, 100, 500, 1000, 1000].map(ms));
}

#[test]
fn the_standard_is_three_attempts_and_has_no_settings() {
    let standard = MaxAttempts::standard();
    assert_eq!(standard.max_attempts(), Some(3));
    assert_eq!(RetryStrategy::on_deadline(&standard), None);
    for (retries, most) in [(0, 100), (1, 200)] {
        let delay = delay(&standard, retries).unwrap();
        assert!(delay <= Duration::from_millis(most), "{delay:?}");
    }
}

/// A wrapper that forwards `decide` alone, which is the only method that it has to have.
#[test]
fn a_wrapped_maximum_of_attempts_still_ends_the_call() {
    #[derive(Debug)]
    struct Wrapped<S>(S);
    impl<S: RetryStrategy> RetryStrategy for Wrapped<S> {
        fn decide(&self, view: &RetryView<'_>) -> Decision {
            self.0.decide(view)
        }
    }
    let times = |max| Wrapped(MaxAttempts::new(max, Backoff::constant(Duration::ZERO)));
    let cases: [(&dyn RetryStrategy, usize); 4] = [
        (&times(0), 0),
        (&times(1), 0),
        (&times(4), 3),
        (&Wrapped(RetryOnce), 1),
    ];
    for (strategy, again) in cases {
        let delays = (0..9).map_while(|retries| delay(strategy, retries));
        assert_eq!(delays.count(), again, "{strategy:?}");
    }
}

/// A view has the values set by its builder, and otherwise those of a first failure.
#[test]
fn a_view_has_builder_values_or_first_failure_defaults() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let then = Instant::now();
    let now = then + Duration::from_secs(1);
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let backend = crate::Backend::new("node-2");
    let first = RetryView::new(&failure, now);
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

/// RFC 0049, Accessible Context.
#[test]
fn a_view_shows_history_and_data_of_its_call() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = Instant::now();
    let failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let mut view = RetryView::new(&failure, now);
    assert_eq!((view.info().attempts(), view.data::<u8>()), (0, None));
    assert_eq!((view.call.route(), view.call.backend()), ("", None));
    let mut context = crate::CallContext::default();
    context.set_data(7_u8);
    context.claim_first();
    view.call = &context;
    assert_eq!((view.info().attempts(), view.data::<u8>()), (1, Some(&7)));
    assert_eq!(view.data::<u16>(), None);
}

/// C8
#[test]
fn retrying_at_once_is_not_the_same_as_stopping() {
    assert_eq!(delay(&RetryOnce, 0), ms(0));
    assert_eq!(RetryOnce.max_attempts(), Some(2));
    assert_eq!(NeverRetry.max_attempts(), Some(1));
    assert_eq!(delay(&NeverRetry, 0), None);
}
