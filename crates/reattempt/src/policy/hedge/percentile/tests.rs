use super::super::AttemptEnd;
use super::super::start;
use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn fed(delay: Percentile, times: impl Iterator<Item = u64>) -> Option<Duration> {
    for time in times {
        delay.ended(&EndedAttempt::new(
            1,
            start(),
            ms(time),
            AttemptEnd::Succeeded,
        ));
    }
    delay.delay(&HedgeView::new(start()))
}

#[test]
fn it_begins_within_a_hundred_attempts() {
    let of = |delay| fed(delay, (1..=100).cycle().take(99));
    let learned = of(Percentile::of(95.0).unwrap()).unwrap();
    assert!((ms(50)..ms(100)).contains(&learned), "{learned:?}");
}

#[test]
fn before_that_it_is_the_maximum_or_not_now() {
    assert_eq!(fed(Percentile::of(95.0).unwrap(), 1..60), None);
    let max = Percentile::of(95.0).unwrap().max(ms(200));
    assert_eq!(fed(max, 1..60), Some(ms(200)));
}

#[test]
fn min_and_max_bound_it() {
    let many = || (1..=100).cycle().take(2000);
    let p95 = || Percentile::of(95.0).unwrap();
    let free = fed(p95(), many()).unwrap();
    assert!((ms(93)..ms(97)).contains(&free), "{free:?}");
    assert_eq!(fed(p95().max(ms(20)), many()), Some(ms(20)));
    assert_eq!(fed(p95().min(ms(300)), many()), Some(ms(300)));
    assert_eq!(fed(p95().min(ms(300)).max(ms(20)), many()), Some(ms(300)));
}

/// As while the server does not answer at all: what is known is that it takes longer.
#[test]
fn where_no_attempt_ended_it_is_the_longest_time() {
    for before in [0, 5000] {
        let delay = Percentile::of(95.0).unwrap();
        for _ in 0..before {
            delay.ended(&EndedAttempt::new(
                1,
                start(),
                ms(10),
                AttemptEnd::Succeeded,
            ));
        }
        for _ in 0..2048 {
            delay.ended(&EndedAttempt::new(
                1,
                start(),
                ms(1000),
                AttemptEnd::Dropped,
            ));
        }
        let learned = delay.delay(&HedgeView::new(start())).unwrap();
        assert!((ms(1000)..ms(1070)).contains(&learned), "{learned:?}");
    }
}

#[test]
fn other_attempts_than_the_first_do_not_count() {
    let delay = Percentile::of(50.0).unwrap();
    for _ in 0..1000 {
        delay.ended(&EndedAttempt::new(2, start(), ms(1), AttemptEnd::Succeeded));
    }
    assert_eq!(delay.delay(&HedgeView::new(start())), None);
}

#[test]
fn impossible_percentiles_are_refused() {
    for wrong in [0.0, 0.9, 99.95, 100.0, f64::NAN, f64::INFINITY] {
        assert!(Percentile::of(wrong).is_err(), "{wrong}");
    }
}
