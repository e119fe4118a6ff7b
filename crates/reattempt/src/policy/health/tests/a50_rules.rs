//! gRPC's A50, rule by rule: `docs/conformance/outlier-detection.md`.

use super::*;

const INTERVAL: Duration = Duration::from_secs(10);

fn by_rate(by: SuccessRateEjection) -> HealthPolicy {
    HealthPolicy::a50().success_rate(by)
}

fn by_share(by: FailurePercentageEjection) -> HealthPolicy {
    HealthPolicy::a50().failure_percentage(by)
}

/// Of each backend: successes and failures in one interval; then the sweep.
fn swept(policy: HealthPolicy, all: &[(usize, usize)]) -> Lab {
    let mut lab = Lab::new(policy, all.len());
    for (at, (successes, failures)) in all.iter().enumerate() {
        lab.results(at, *successes, *failures);
    }
    lab.look_after(INTERVAL);
    lab
}

const EVERY: FailurePercentageEjection = FailurePercentageEjection {
    threshold: 85,
    enforcement_percentage: 100,
    minimum_hosts: 1,
    request_volume: 1,
};

/// O1
#[test]
fn the_defaults_are_a50s() {
    let by = SuccessRateEjection::default();
    assert_eq!((by.stdev_factor, by.enforcement_percentage), (1900, 100));
    assert_eq!((by.minimum_hosts, by.request_volume), (5, 100));
    let by = FailurePercentageEjection::default();
    assert_eq!((by.threshold, by.enforcement_percentage), (85, 100));
    assert_eq!((by.minimum_hosts, by.request_volume), (5, 50));
    // Neither algorithm is on by itself: all attempts of one backend fail, and it stays.
    let lab = swept(
        HealthPolicy::a50(),
        &[(0, 200), (200, 0), (200, 0), (200, 0), (200, 0)],
    );
    assert_eq!(lab.ejected(), NONE);
}

/// O2
#[test]
fn nothing_happens_before_the_sweep() {
    let mut lab = Lab::new(by_share(EVERY), 3);
    lab.results(1, 0, 50);
    lab.look_after(INTERVAL - MS);
    assert_eq!(lab.ejected(), NONE);
    lab.look_after(MS);
    assert_eq!(lab.ejected(), [1]);
}

/// O3
#[test]
fn each_sweep_counts_its_own_interval_alone() {
    let mut lab = Lab::new(
        by_share(FailurePercentageEjection {
            request_volume: 10,
            ..EVERY
        }),
        3,
    );
    for _ in 0..3 {
        lab.results(1, 0, 9);
        lab.look_after(INTERVAL);
    }
    assert_eq!(lab.ejected(), NONE, "nine in each, 27 in all");
}

/// O4
#[test]
fn the_success_rate_is_compared_with_mean_and_deviation() {
    // Rates 1, 1, 1, 1 and 0.9: the mean is 0.98, the deviation 0.04, the limit 0.904.
    let ten = |failures| (100 - failures, failures);
    let all = [ten(0), ten(0), ten(0), ten(0), ten(10)];
    assert_eq!(
        swept(by_rate(SuccessRateEjection::default()), &all).ejected(),
        [4]
    );
    // A factor of 2.0 puts the limit at 0.9, and the rate is not below it. A little more than two
    // keeps clear of rounding.
    let wider = SuccessRateEjection {
        stdev_factor: 2001,
        ..Default::default()
    };
    assert_eq!(swept(by_rate(wider), &all).ejected(), NONE);
}

/// O4: where nearly all attempts succeed, one failure makes a statistical outlier.
#[test]
fn a_backend_has_to_fail_much_more_than_the_others() {
    let one = |failures: usize| [0, 0, 0, 0, failures].map(|failed| (100 - failed, failed));
    let a50 = by_rate(SuccessRateEjection::default());
    assert_eq!(swept(a50, &one(1)).ejected(), [4]);
    // One of five lowers their mean by a fifth of what it fails.
    let standard = HealthPolicy::standard()
        .interval(INTERVAL)
        .consecutive_failures(None);
    let standard = |failures| swept(standard.clone(), &one(failures)).ejected();
    assert_eq!((standard(1), standard(12)), (vec![], vec![]));
    assert_eq!(standard(13), [4]);
}

/// O5
#[test]
fn too_few_backends_with_enough_attempts_are_not_compared() {
    let all = [(100, 0), (100, 0), (100, 0), (100, 0), (90, 9)];
    let policy = by_rate(SuccessRateEjection::default());
    assert_eq!(swept(policy.clone(), &all).ejected(), NONE, "99 attempts");
    let all = [(100, 0), (100, 0), (100, 0), (90, 10)];
    assert_eq!(swept(policy, &all).ejected(), NONE, "four backends");
}

/// O6
#[test]
fn one_with_too_few_attempts_is_neither_judged_nor_counted() {
    let mut all = vec![(100, 0); 5];
    all[2] = (0, 99);
    all.push((90, 10));
    let lab = swept(by_rate(SuccessRateEjection::default()), &all);
    assert_eq!(
        lab.ejected(),
        [5],
        "the one with 99 failures does not move the mean"
    );
}

/// O7
#[test]
fn more_failures_than_the_threshold_eject() {
    let lab = swept(by_share(EVERY), &[(15, 85), (100, 0), (100, 0)]);
    assert_eq!(lab.ejected(), NONE, "85 percent are not more than 85");
    let lab = swept(by_share(EVERY), &[(14, 86), (100, 0), (100, 0)]);
    assert_eq!(lab.ejected(), [0]);
    let five = FailurePercentageEjection::default();
    let lab = swept(by_share(five), &[(0, 50), (50, 0), (50, 0), (50, 0)]);
    assert_eq!(lab.ejected(), NONE, "four backends");
    let lab = swept(
        by_share(five),
        &[(0, 49), (50, 0), (50, 0), (50, 0), (50, 0), (50, 0)],
    );
    assert_eq!(lab.ejected(), NONE, "49 attempts");
}

/// O8
#[test]
fn at_most_the_share_is_ejected_but_always_one() {
    let all_fail = |percent, backends| {
        let policy = by_share(EVERY).max_ejection_percent(percent);
        swept(policy, &vec![(0, 10); backends]).ejected().len()
    };
    assert_eq!(all_fail(10, 3), 1);
    assert_eq!(all_fail(10, 10), 1);
    assert_eq!(all_fail(10, 11), 2);
    assert_eq!(all_fail(50, 4), 2);
    assert_eq!(all_fail(100, 4), 4);
    assert_eq!(all_fail(0, 4), 0);
}

/// O9
#[test]
fn enforcement_is_a_chance_in_percent() {
    let ejected_at = |roll, enforcement_percentage| {
        let by = FailurePercentageEjection {
            enforcement_percentage,
            ..EVERY
        };
        let policy = by_share(by).randomness(crate::backoff::Randomness::Fixed(roll));
        let pool = Pool::new(policy, 1, start());
        let mut lab = Lab { pool, now: start() };
        lab.results(0, 0, 10);
        lab.look_after(INTERVAL);
        !lab.ejected().is_empty()
    };
    assert!(ejected_at(0.49, 50));
    assert!(!ejected_at(0.5, 50));
    assert!(!ejected_at(0.0, 0));
    assert!(ejected_at(0.999, 100));
}

/// O10
#[test]
fn it_returns_with_the_sweep_after_its_time() {
    let mut lab = swept(by_share(EVERY), &[(0, 10), (10, 0), (10, 0)]);
    assert_eq!(lab.ejected(), [0]);
    for _ in 0..3 {
        lab.look_after(INTERVAL);
        assert_eq!(lab.ejected(), [0], "30 seconds are not more than 30");
    }
    lab.look_after(INTERVAL);
    assert_eq!(lab.ejected(), NONE);
}

/// O10
#[test]
fn a_late_sweep_ejects_from_when_it_was_due() {
    let mut lab = Lab::new(by_share(EVERY), 3);
    lab.results(0, 0, 10);
    lab.look_after(INTERVAL + 25 * SECOND);
    assert_eq!(lab.ejected(), [0]);
    lab.look_after(10 * SECOND);
    assert_eq!(lab.ejected(), NONE, "45 seconds after it began");

    lab.results(0, 0, 10);
    lab.look_after(3600 * SECOND);
    assert_eq!(lab.ejected(), NONE, "results of an hour ago");
    // Its multiplier went down meanwhile.
    lab.results(0, 0, 10);
    lab.look_after(INTERVAL);
    let time = lab.pool.status(lab.now)[0].ejected_for;
    assert_eq!(time.map(|time| time.as_secs()), Some(30));
}

fn sweeps_until_return(lab: &mut Lab) -> usize {
    let mut passed = 0;
    while lab.ejected() == [0] {
        lab.look_after(INTERVAL);
        passed += 1;
    }
    passed
}

/// O11
#[test]
fn each_ejection_in_a_row_is_longer_up_to_the_maximum() {
    let seconds = |times| {
        let policy = HealthPolicy::a50();
        policy.ejection_time(times).as_secs()
    };
    assert_eq!([1, 2, 9, 10, 11].map(seconds), [30, 60, 270, 300, 300]);
    let long = HealthPolicy::a50().base_ejection_time(Duration::from_secs(400));
    assert_eq!(
        long.ejection_time(3).as_secs(),
        400,
        "the base counts if it is longer"
    );
    let short = long.max_ejection_time(Duration::from_secs(500));
    assert_eq!(short.ejection_time(3).as_secs(), 500);
    assert_eq!(short.ejection_time(u32::MAX).as_secs(), 500);

    // Sweeps until the first backend returns, if its next ejection follows at once.
    let mut lab = swept(by_share(EVERY), &[(0, 10), (10, 0), (10, 0)]);
    for sweeps in [4, 7] {
        assert_eq!(sweeps_until_return(&mut lab), sweeps);
        lab.results(0, 0, 10);
        lab.look_after(INTERVAL);
    }
}

/// O12
#[test]
fn each_sweep_without_an_ejection_lowers_the_multiplier() {
    let mut lab = swept(by_share(EVERY), &[(0, 10), (10, 0), (10, 0)]);
    let fails_again = |lab: &mut Lab| {
        lab.results(0, 0, 10);
        lab.look_after(INTERVAL);
    };
    assert_eq!(sweeps_until_return(&mut lab), 4);
    fails_again(&mut lab);
    assert_eq!(sweeps_until_return(&mut lab), 7, "the second in a row");
    // Two sweeps that no attempt asked for count as well.
    lab.look_after(2 * INTERVAL);
    fails_again(&mut lab);
    assert_eq!(sweeps_until_return(&mut lab), 4, "as the first time");
}

/// O13
#[test]
fn a_changed_list_keeps_the_state_of_those_that_stay() {
    let mut lab = swept(by_share(EVERY), &[(10, 0), (0, 10), (10, 0)]);
    assert_eq!(lab.ejected(), [1]);
    let old = lab.pool;
    lab.pool = old.changed(&[Some(1), None, Some(2)], lab.now);
    assert_eq!(lab.ejected(), [0]);
    // What was sent before ends in the pool that it was sent from.
    let sent = old.send(
        lab.now,
        Attempted {
            tried: &[1, 2],
            may_lose: false,
        },
    );
    old.ended(sent.expect("a backend"), lab.now, Outcome::Success, None);
    let list: Vec<_> = (0..3).map(|_| None).collect();
    lab.pool = lab.pool.changed(&list, lab.now);
    assert_eq!(lab.ejected(), NONE, "all are new");
}

/// O14
#[test]
fn one_dropped_after_a_short_time_is_not_counted() {
    let mut lab = Lab::new(by_share(EVERY), 3);
    lab.results(0, 1, 0);
    (0..100).for_each(|_| lab.ends(0, 4 * MS, Outcome::Dropped));
    lab.look_after(INTERVAL);
    assert_eq!(lab.ejected(), NONE);
}

/// O14
#[test]
fn one_dropped_after_a_long_silence_is_a_failure() {
    let mut lab = Lab::new(by_share(EVERY), 3);
    lab.shares(30);
    (0..100).for_each(|_| lab.ends(0, SECOND, Outcome::Dropped));
    lab.look_after(INTERVAL);
    assert_eq!(lab.ejected(), [0]);
}

/// O15
#[test]
fn an_answer_to_the_request_is_no_failure_of_the_backend() {
    use crate::failure::reason::{
        KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, SERVICE_RESPONSE_CODE_INDICATED,
        UNKNOWN,
    };
    use crate::{Failure, Stage, Transparent};
    let failure = |reason| Failure::new(reason, Stage::Response);
    let lost = |reason| Failure::new(reason, Stage::InFlight);
    for (verdict, outcome) in [
        (Verdict::Success, Outcome::Success),
        (Verdict::Committed, Outcome::Success),
        (Verdict::Fatal(failure(UNKNOWN)), Outcome::Success),
        (Verdict::Retry(failure(KV_NOT_MY_VBUCKET)), Outcome::Success),
        // Retried, though it says nothing against the backend: the document is locked.
        (Verdict::Retry(failure(KV_LOCKED)), Outcome::Success),
        (
            Verdict::Retry(failure(KV_LOCKED).server_failed(true)),
            Outcome::Failure,
        ),
        (
            Verdict::Fatal(failure(SERVICE_RESPONSE_CODE_INDICATED)),
            Outcome::Failure,
        ),
        (Verdict::Retry(failure(UNKNOWN)), Outcome::Failure),
        // Closed in the pool, or above the last stream of a GOAWAY: never sent.
        (
            Verdict::Retry(failure(UNKNOWN).transparent(Transparent::Unlimited)),
            Outcome::NeverSent,
        ),
        // Its connection was lost in flight, and it had no answer in time.
        (Verdict::Retry(lost(KV_LOCKED)), Outcome::Lost),
        (Verdict::Fatal(lost(UNKNOWN)), Outcome::Lost),
        (Verdict::Retry(lost(KV_TEMPORARY_FAILURE)), Outcome::Failure),
        // No connection could be made.
        (
            Verdict::Retry(failure(UNKNOWN).transparent(Transparent::NextBackend)),
            Outcome::Failure,
        ),
    ] {
        assert_eq!(Outcome::of(&verdict), outcome, "{verdict:?}");
    }
}

#[test]
fn each_ejection_and_each_return_is_an_event() {
    use std::sync::{Arc, Mutex};
    let policy = HealthPolicy::standard().max_ejection_percent(50);
    let mut lab = Lab::new(policy, 4);
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let events = Arc::clone(&seen);
    lab.pool.set_name(1, "one");
    lab.pool.on_event(move |event| {
        let seen = (event.name.clone(), event.change.name(), event.cause.name());
        events.lock().unwrap().push(seen);
    });
    let take = || std::mem::take(&mut *seen.lock().unwrap());
    let one = || Some(Arc::from("one"));
    lab.results(1, 0, 5);
    assert_eq!(take(), [(one(), "ejected", "failures_in_a_row")]);
    lab.look_after(10 * SECOND);
    assert_eq!(take(), [(one(), "returned", "time")]);
    lab.results(1, 10, 0);
    for _ in 0..11 {
        lab.results(1, 1, 2);
    }
    lab.look_after(SECOND);
    assert_eq!(take(), [(one(), "ejected", "failure_percentage")]);
    lab.results(2, 0, 5);
    assert_eq!(take(), [(None, "ejected", "failures_in_a_row")]);
    // Of two at most one may be ejected.
    lab.pool = lab.pool.changed(&[Some(1), Some(2)], lab.now);
    assert_eq!(take(), [(one(), "returned", "fewer_allowed")]);
}
