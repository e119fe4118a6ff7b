//! A policy that is replaced while it is used.

use super::*;

fn lab(policy: HealthPolicy, backends: usize) -> (Lab, LiveHealthPolicy) {
    let live = LiveHealthPolicy::new(policy);
    let mut lab = Lab::new(HealthPolicy::standard(), 0);
    lab.pool = Pool::new(&live, backends, lab.now);
    (lab, live)
}

#[test]
fn what_is_known_of_a_backend_stays() {
    let (lab, live) = lab(HealthPolicy::standard(), 3);
    lab.results(0, 1, 3);
    live.set(HealthPolicy::standard().consecutive_failures(4));
    assert_eq!(lab.pool.status(lab.now)[0].latency, Some(MS));
    lab.results(0, 0, 1);
    assert_eq!(lab.ejected(), [0], "the fourth in a row");
}

#[test]
fn another_time_holds_for_what_is_ejected() {
    let (mut lab, live) = lab(HealthPolicy::standard(), 3);
    lab.results(0, 0, 5);
    live.set(HealthPolicy::standard().base_ejection_time(60 * SECOND));
    lab.look_after(50 * SECOND);
    assert_eq!(lab.ejected(), [0]);
    live.set(HealthPolicy::standard());
    lab.look_after(2 * SECOND);
    assert_eq!(lab.ejected(), NONE);
}

#[test]
fn a_shorter_interval_holds_within_a_second() {
    let policy = HealthPolicy::standard().consecutive_failures(None);
    let (mut lab, live) = lab(policy.clone().interval(3600 * SECOND), 3);
    for _ in 0..10 {
        lab.results(0, 0, 100);
        lab.look_after(SECOND);
    }
    assert_eq!(lab.ejected(), NONE);
    live.set(policy);
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), [0]);
    assert!(lab.pool.status(lab.now)[0].ejected_for.unwrap() > 2 * SECOND);
}

#[test]
fn a_smaller_share_returns_those_that_were_ejected_first() {
    let (mut lab, live) = lab(HealthPolicy::standard().max_ejection_percent(100), 3);
    for at in [1, 2] {
        lab.results(at, 0, 5);
        lab.pass(MS);
    }
    assert_eq!(lab.ejected(), [1, 2]);
    live.set(HealthPolicy::standard());
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), [2]);
    live.set(HealthPolicy::standard().max_ejection_percent(0));
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), NONE);
}

#[test]
fn probes_begin_for_what_is_ejected_already() {
    let (mut lab, live) = lab(HealthPolicy::standard().probe_interval(None), 3);
    lab.results(0, 0, 5);
    lab.pass(SECOND + MS);
    assert!(!lab.try_send(&[1], true).unwrap().is_probe());
    live.set(HealthPolicy::standard());
    assert!(lab.try_send(&[1], true).unwrap().is_probe());
}

/// The share, the minimum of hosts and the success rate compare backends: a circuit has no other.
#[test]
fn a_circuit_follows_and_is_still_judged_alone() {
    let mut now = start();
    let live = LiveHealthPolicy::default();
    let breaker = CircuitBreaker::new(&live, now);
    let by = FailurePercentageEjection {
        request_volume: 10,
        ..FailurePercentageEjection::default()
    };
    let policy = HealthPolicy::a50().max_ejection_percent(0);
    live.set(policy.interval(SECOND).failure_percentage(by));
    for _ in 0..10 {
        assert_eq!(breaker.state(now), CircuitState::Closed);
        let sent = breaker.admit(now).unwrap();
        breaker.ended(sent, now, Outcome::Failure);
    }
    now += SECOND + MS;
    assert!(breaker.admit(now).is_err());
    assert!(matches!(breaker.state(now), CircuitState::Open(_)));
}

#[test]
fn a_lower_threshold_ejects_by_the_next_failure() {
    let (lab, live) = lab(HealthPolicy::standard().consecutive_failures(10), 3);
    lab.results(0, 0, 5);
    live.set(HealthPolicy::standard().consecutive_failures(4));
    lab.results(0, 0, 1);
    assert_eq!(lab.ejected(), [0]);
}

#[test]
fn one_that_could_not_be_ejected_is_once_it_may() {
    let policy = || HealthPolicy::standard().failure_percentage(None);
    let (lab, live) = lab(policy().max_ejection_percent(0), 3);
    lab.results(0, 0, 6);
    live.set(policy());
    lab.results(0, 0, 3);
    assert_eq!(lab.ejected(), NONE, "not asked at each failure");
    lab.results(0, 0, 1);
    assert_eq!(lab.ejected(), [0], "five after it was refused");
}
