//! Attempts whose status comes with the end of their response.

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// Responses that begin after a millisecond.
fn begin(lab: &Lab, at: usize, number: usize) -> Vec<Open> {
    let began = |_| {
        let sent = lab.send_to(at);
        lab.pool.begun(sent, lab.now + MS, None)
    };
    (0..number).filter_map(began).collect()
}

fn end(lab: &Lab, all: Vec<Open>, outcome: Outcome) {
    all.into_iter()
        .for_each(|open| open.ended(lab.now, outcome));
}

#[test]
fn a_failure_at_the_end_of_a_response_counts() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let all = begin(&lab, 0, 5);
    let before = lab.pool.status(lab.now)[0];
    assert_eq!((before.in_flight, before.latency), (0, Some(MS)));
    lab.pass(LONG);
    end(&lab, all, Outcome::Failure);
    assert_eq!(lab.ejected(), [0]);
}

#[test]
fn a_success_at_the_end_interrupts_failures() {
    let lab = Lab::new(HealthPolicy::standard(), 3);
    for _ in 0..3 {
        end(&lab, begin(&lab, 0, 4), Outcome::Failure);
        end(&lab, begin(&lab, 0, 1), Outcome::Success);
    }
    assert_eq!(lab.ejected(), NONE);
}

#[test]
fn a_response_that_is_dropped_counts_nowhere() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    end(&lab, begin(&lab, 0, 4), Outcome::Failure);
    drop(begin(&lab, 0, 100));
    lab.pass(LONG);
    assert_eq!(lab.pool.status(lab.now)[0].in_flight, 0);
    assert_eq!(lab.ejected(), NONE);
    end(&lab, begin(&lab, 0, 1), Outcome::Failure);
    assert_eq!(lab.ejected(), [0], "the fifth in a row");
}

/// Callers of a stream that is watched drop it when they have seen enough.
#[tokio::test(start_paused = true)]
async fn a_stream_that_lasted_ends_a_run_of_failures() {
    for (lasted, failed_meanwhile, ejected) in [
        (SECOND, 0, vec![0]),
        (SECOND + MS, 0, vec![]),
        (SECOND + MS, 1, vec![0]),
    ] {
        let mut lab = Lab::new(HealthPolicy::standard(), 3);
        lab.now = crate::clock::now();
        end(&lab, begin(&lab, 0, 3), Outcome::Failure);
        let open = begin(&lab, 0, 1);
        end(&lab, begin(&lab, 0, failed_meanwhile), Outcome::Failure);
        tokio::time::advance(MS + lasted).await;
        drop(open);
        end(&lab, begin(&lab, 0, 2 - failed_meanwhile), Outcome::Failure);
        assert_eq!(lab.ejected(), ejected, "{lasted:?} {failed_meanwhile}");
    }
}

/// A stream of before the ejection says nothing of a backend that has returned in doubt.
#[tokio::test(start_paused = true)]
async fn a_stream_of_before_the_return_ends_no_doubt() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.now = crate::clock::now();
    let old = begin(&lab, 0, 1);
    lab.results(0, 0, 5);
    tokio::time::advance(10 * SECOND).await;
    lab.look_after(10 * SECOND);
    assert_eq!(lab.ejected(), NONE);
    drop(old);
    lab.results(0, 0, 1);
    assert_eq!(lab.ejected(), [0]);
}

#[test]
fn a_long_stream_that_fails_says_nothing_of_the_latency() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let all = begin(&lab, 0, 1);
    lab.pass(LONG);
    end(&lab, all, Outcome::Failure);
    assert_eq!(lab.pool.status(lab.now)[0].latency, Some(MS));
}

#[test]
fn a_response_of_before_the_return_says_nothing_of_now() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let old = begin(&lab, 0, 5);
    lab.results(0, 0, 5);
    assert_eq!(lab.ejected(), [0]);
    lab.look_after(10 * SECOND);
    assert_eq!(lab.ejected(), NONE);
    end(&lab, old, Outcome::Failure);
    assert_eq!(lab.ejected(), NONE);
}

fn ejected_and_probed() -> (Lab, Sent) {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.results(0, 0, 5);
    lab.pass(SECOND + MS);
    let probe = lab.try_send(&[1], true).unwrap();
    assert!(probe.is_probe() && probe.at() == 0);
    (lab, probe)
}

#[test]
fn a_probe_whose_response_begins_brings_it_back_in_doubt() {
    let (lab, probe) = ejected_and_probed();
    let open = lab.pool.begun(probe, lab.now + MS, None).unwrap();
    assert_eq!(lab.ejected(), NONE);
    open.ended(lab.now + SECOND, Outcome::Failure);
    assert_eq!(lab.ejected(), [0], "by the first failure");
}

#[test]
fn a_probe_whose_response_ends_well_ends_the_doubt() {
    let (lab, probe) = ejected_and_probed();
    let open = lab.pool.begun(probe, lab.now + MS, None).unwrap();
    open.ended(lab.now + SECOND, Outcome::Success);
    end(&lab, begin(&lab, 0, 4), Outcome::Failure);
    assert_eq!(lab.ejected(), NONE);
}

/// A stream may last for hours: the circuit does not stay half-open until then.
#[test]
fn a_trial_whose_response_begins_closes_the_circuit_in_doubt() {
    let mut now = start();
    let breaker = CircuitBreaker::new(HealthPolicy::standard(), now);
    for _ in 0..5 {
        let sent = breaker.admit(now).unwrap();
        breaker.ended(sent, now, Outcome::Failure);
    }
    now += 4 * SECOND;
    let trial = breaker.admit(now).unwrap();
    let open = breaker.begun(trial, now + MS).unwrap();
    assert_eq!(breaker.state(now), CircuitState::Closed);
    open.ended(now + LONG, Outcome::Failure);
    assert!(matches!(breaker.state(now + LONG), CircuitState::Open(_)));
}
