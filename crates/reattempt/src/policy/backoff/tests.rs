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

/// R11
#[test]
fn the_maximum_caps_the_first_delay_too() {
    assert_eq!(
        Backoff::exponential(ms(1000), ms(100))
            .jitter(Jitter::None)
            .delay(0, None),
        ms(100)
    );
}

/// R11
#[test]
fn exponential_is_uniform_from_zero_by_default() {
    let backoff = Backoff::exponential(ms(100), ms(1000));
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
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
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

/// R11 R12
#[test]
fn a_factor_that_is_no_whole_number_is_applied_each_time() {
    let delays = |factor| {
        let backoff = Backoff::exponential(ms(1000), ms(10_000))
            .jitter(Jitter::None)
            .multiplier(factor);
        [0, 1, 2, 3, 9].map(|retries| backoff.delay(retries, None))
    };
    assert_eq!(delays(1.6), [1000, 1600, 2560, 4096, 10_000].map(ms));
    assert_eq!(delays(1.0), [1000; 5].map(ms));
    assert_eq!(
        delays(0.5)[..4],
        [ms(1000), ms(500), ms(250), ms(125)],
        "below 1 the delays shrink"
    );
    for none in [0.0, -1.6, f64::NAN] {
        assert_eq!(delays(none), [1000, 0, 0, 0, 0].map(ms), "{none}");
    }
}

/// R11
#[test]
fn a_shrinking_delay_leaves_the_maximum_behind() {
    let backoff = Backoff::exponential(ms(1600), ms(200))
        .jitter(Jitter::None)
        .multiplier(0.5);
    let delays = [0, 1, 3, 4].map(|retries| backoff.delay(retries, None));
    assert_eq!(delays, [200, 200, 200, 100].map(ms));
}

// Under Miri the last bits of `powf` vary.
#[cfg(not(miri))]
#[test]
fn doubling_is_exact_to_the_nanosecond() {
    let long = Duration::new(4_000_000, 1);
    let backoff = Backoff::exponential(long, Duration::MAX).jitter(Jitter::None);
    assert_eq!(backoff.delay(3, None), long * 8);
    let backoff = Backoff::exponential(Duration::from_nanos(1), Duration::MAX).jitter(Jitter::None);
    assert_eq!(backoff.delay(31, None), Duration::from_nanos(1 << 31));
    assert_eq!(backoff.delay(33, None), Duration::from_nanos(1 << 33));
}

#[test]
fn a_calculated_delay_is_capped() {
    let backoff = Backoff::calculated(|retries| ms(u64::from(retries) * 7), ms(20));
    assert_eq!(
        [0, 2, 3].map(|n| backoff.delay(n, None)),
        [0, 14, 20].map(ms)
    );
}

#[test]
fn a_share_of_the_jitter_counts_from_0_to_1() {
    let at = |share, roll| {
        Backoff::constant(ms(100))
            .jitter(Jitter::Proportional(share))
            .randomness(Randomness::Fixed(roll))
            .delay(0, None)
    };
    assert_eq!(
        [0.0, 0.75, 1.0].map(|roll| at(0.2, roll)),
        [80, 110, 120].map(ms)
    );
    assert_eq!([0.0, 1.0].map(|roll| at(3.0, roll)), [0, 200].map(ms));
    for none in [0.0, -0.5, f64::NAN] {
        assert_eq!([0.0, 1.0].map(|roll| at(none, roll)), [100, 100].map(ms));
    }
}

#[test]
fn shortened_delays_are_never_longer_than_the_backoff() {
    let at = |share, roll| {
        Backoff::constant(ms(100))
            .jitter(Jitter::Shortened(share))
            .randomness(Randomness::Fixed(roll))
            .delay(0, None)
    };
    assert_eq!(
        [0.0, 0.5, 1.0].map(|roll| at(0.2, roll)),
        [100, 90, 80].map(ms)
    );
    assert_eq!([0.0, 1.0].map(|roll| at(3.0, roll)), [100, 0].map(ms));
    for none in [0.0, -0.5, f64::NAN] {
        assert_eq!([0.0, 1.0].map(|roll| at(none, roll)), [100, 100].map(ms));
    }
}

#[test]
fn decorrelated_jitter_waits_after_a_first_delay_of_zero() {
    let at_once_first = |retries: u32| ms(100) * retries;
    let backoff = Backoff::calculated(at_once_first, ms(400))
        .jitter(Jitter::Decorrelated)
        .randomness(Randomness::Fixed(0.5));
    assert_eq!(backoff.delay(0, None), ms(0));
    assert_eq!(backoff.delay(1, Some(ms(0))), ms(50));
    assert_eq!(backoff.delay(2, Some(ms(50))), ms(75));
    assert_eq!(backoff.delay(2, None), ms(100), "also after a pushback");
}

#[test]
fn decorrelated_jitter_goes_by_the_previous_delay() {
    let at = |backoff: Backoff, previous, roll| {
        backoff
            .jitter(Jitter::Decorrelated)
            .randomness(Randomness::Fixed(roll))
            .delay(7, previous)
    };
    let backoff = || Backoff::exponential(ms(10), ms(400));
    assert_eq!(at(backoff(), None, 0.0), ms(10));
    assert_eq!(
        at(backoff(), None, 0.5),
        ms(20),
        "up to three times the first"
    );
    assert_eq!(at(backoff(), Some(ms(100)), 0.5), ms(155));
    assert_eq!(
        at(backoff(), Some(ms(300)), 1.0),
        ms(400),
        "at most the maximum"
    );
    assert_eq!(
        at(backoff(), Some(ms(1)), 1.0),
        ms(10),
        "at least the first"
    );
    let long = Some(ms(9_000));
    assert_eq!(at(Backoff::constant(ms(30)), long, 0.5), ms(30));
    assert_eq!(at(Backoff::linear(ms(5), ms(60)), long, 0.5), ms(60));
    assert_eq!(at(Backoff::controlled(), long, 0.5), ms(1000));
}

#[test]
fn a_backoff_from_zero_stays_zero() {
    let backoff = Backoff::exponential(Duration::ZERO, Duration::from_secs(9)).multiplier(1.5);
    for retries in [0, 5, 2000, u32::MAX] {
        assert_eq!(backoff.delay(retries, None), Duration::ZERO);
    }
}

#[test]
fn bits_are_those_of_the_source() {
    let drawn = Randomness::drawn(|| 0.5);
    assert_eq!(drawn.bits(), 0x8000_0000_8000_0000);
    assert_eq!(Randomness::Fixed(0.25).bits(), 1 << 62);
    assert_ne!(Randomness::Thread.bits(), Randomness::Thread.bits());
    let [one, same] = [Randomness::seeded(7), Randomness::seeded(7)];
    let bits = one.bits();
    assert_eq!(bits, same.bits());
    assert_ne!(bits, one.clone().bits(), "clones share the generator");
}
