use std::time::Duration;

use proptest::prelude::*;

use super::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// C5
#[test]
fn controlled_goes_by_the_retries_already_made() {
    let delays: Vec<_> = (0..8)
        .map(|n| Backoff::controlled().delay(n, None))
        .collect();
    assert_eq!(delays, [1, 10, 50, 100, 500, 1000, 1000, 1000].map(ms));
}

/// C4
#[test]
fn best_effort_doubles_from_1_to_500_ms() {
    let backoff = Backoff::exponential(ms(1), ms(500));
    let delays: Vec<_> = (0..11).map(|n| backoff.delay(n, None)).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500].map(ms));
}

/// R11
#[test]
fn the_maximum_caps_the_first_delay_too() {
    assert_eq!(
        Backoff::exponential(ms(1000), ms(100)).delay(0, None),
        ms(100)
    );
}

/// R11
#[test]
fn full_jitter_is_uniform_from_zero() {
    let backoff = Backoff::exponential(ms(100), ms(1000)).jitter(Jitter::Full);
    let at = |roll| {
        backoff
            .clone()
            .randomness(Randomness::Fixed(roll))
            .delay(1, None)
    };
    assert_eq!(at(0.0), ms(0));
    assert_eq!(at(0.5), ms(100));
}

/// R11
#[test]
fn proportional_jitter_spreads_both_ways() {
    let backoff = Backoff::constant(ms(100)).jitter(Jitter::Proportional(0.2));
    let at = |roll| {
        backoff
            .clone()
            .randomness(Randomness::Fixed(roll))
            .delay(0, None)
    };
    assert_eq!(at(0.0), ms(80));
    assert_eq!(at(0.5), ms(100));
    assert!(at(0.999) <= ms(120));
}

#[test]
fn linear_grows_by_its_step() {
    let backoff = Backoff::linear(ms(10), ms(35));
    assert_eq!(
        [0, 1, 2, 3, 9].map(|n| backoff.delay(n, None)),
        [10, 20, 30, 35, 35].map(ms)
    );
}

#[test]
fn seeds_repeat_and_the_default_differs() {
    let rolls = |r: Randomness| (0..4).map(|_| r.roll()).collect::<Vec<_>>();
    assert_eq!(rolls(Randomness::seeded(7)), rolls(Randomness::seeded(7)));
    assert_ne!(rolls(Randomness::Thread), rolls(Randomness::Thread));
}

proptest! {
    /// R12
    #[test]
    fn no_input_overflows_or_passes_the_maximum(
        initial in any::<u64>(), max in any::<u64>(), multiplier in any::<f64>(),
        retries in any::<u32>(), previous in any::<u64>(), roll in 0.0..1.0f64,
    ) {
        let (initial, max) = (Duration::from_nanos(initial), Duration::from_nanos(max));
        let previous = Some(Duration::from_nanos(previous));
        for jitter in [Jitter::None, Jitter::Full, Jitter::Decorrelated] {
            let backoff = Backoff::exponential(initial, max)
                .multiplier(multiplier)
                .jitter(jitter)
                .randomness(Randomness::Fixed(roll));
            prop_assert!(backoff.delay(retries, previous) <= max);
        }
        let _ = Backoff::exponential(Duration::MAX, Duration::MAX)
            .jitter(Jitter::Proportional(multiplier))
            .delay(retries, Some(Duration::MAX));
        let _ = Backoff::linear(Duration::MAX, Duration::MAX).delay(retries, None);
    }
}

#[test]
fn a_backoff_from_zero_stays_zero() {
    let backoff = Backoff::exponential(Duration::ZERO, Duration::from_secs(9)).multiplier(1.5);
    for retries in [0, 5, 2000, u32::MAX] {
        assert_eq!(backoff.delay(retries, None), Duration::ZERO);
    }
}
