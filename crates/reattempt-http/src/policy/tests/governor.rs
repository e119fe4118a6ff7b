//! Governors and admission in a table.

use reattempt::admission::Criticality;
use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, Stage};

use super::*;
use crate::reasons::HTTP_SERVICE_UNAVAILABLE;

const BUSY: Failure = Failure::new(HTTP_SERVICE_UNAVAILABLE, Stage::Response);

fn faults_of(text: &str) -> Vec<String> {
    let faults = HttpPolicies::parse(text).unwrap_err();
    faults.faults().iter().map(ToString::to_string).collect()
}

#[test]
fn a_governor_is_carried_over_with_its_fill() {
    let text = |governor: &str| {
        format!(
            r#"{{"default": {{"retry": {{}}, "throttle": "t"}},
                "throttles": {{"t": {{"governor": {governor}}}}}}}"#
        )
    };
    let live = LiveHttpPolicies::new(HttpPolicies::parse(&text("true")).unwrap().policies);
    let governor = live.load().governor("t").unwrap().clone();
    governor.settled(Settled::Failure(&BUSY));
    assert_eq!(governor.milli_tokens(), Some(15_000));
    live.update(&text(r#"{"burst": 40, "ratio": 0.5}"#))
        .unwrap();
    assert!(Arc::ptr_eq(live.load().governor("t").unwrap(), &governor));
    assert_eq!(governor.milli_tokens(), Some(30_000));
    let policy = live.load().iter().next().unwrap().clone();
    assert_eq!(policy.throttle().unwrap().milli_tokens(), Some(30_000));
    assert!(live.load().throttle("t").is_none() && live.load().quota("t").is_none());
}

#[test]
fn admission_is_the_same_in_each_table_and_off_without() {
    let live = LiveHttpPolicies::default();
    let admission = live.load().admission().clone();
    assert!(admission.is_off());
    live.update(r#"{"admission": {"multiplier": 1.5, "window": "60s"}}"#)
        .unwrap();
    assert!(!admission.is_off());
    (0..100).for_each(|_| admission.ended(Criticality::CRITICAL, false));
    let refused = (0..100).filter(|_| admission.admit(Criticality::CRITICAL).is_err());
    assert!(refused.count() > 50);
    live.update(r#"{"admission": false}"#).unwrap();
    assert!(admission.is_off());
    let parsed = HttpPolicies::parse(r#"{"admission": true}"#).unwrap();
    assert!(!parsed.policies.admission().is_off());
}

#[test]
fn faults_of_a_governor_and_of_admission_have_their_paths() {
    let text = r#"{"throttles": {
        "a": {"governor": {"burst": 501, "ratio": 2}}, "b": {"governor": false},
        "c": {"governor": true, "maxTokens": 3}, "d": {"preset": "aws-standard-2.1", "governor": true}
    }, "admission": {"multiplier": 1, "window": "0.1s", "k": 2}}"#;
    let faults = faults_of(text);
    for path in [
        "$.throttles.a.governor.burst: must be an integer from 1 to 500",
        "$.throttles.a.governor.ratio: must be a number from 0.001 to 1, got 2",
        "$.throttles.b.governor: must be true, or an object, got false",
        "$.throttles.c.maxTokens: cannot be set together with governor",
        "$.throttles.d.governor: cannot be set together with preset",
        "$.admission.multiplier: must be a number from 1.1 to 100, got 1",
        "$.admission.window: the window of admission must be from 1s to 600s",
    ] {
        assert!(
            faults.iter().any(|fault| fault.starts_with(path)),
            "{path} in {faults:#?}"
        );
    }
}
