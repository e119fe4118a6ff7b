use super::*;
use crate::config::{Faults, Form};

fn read(text: &str) -> Result<HealthPolicy, Faults> {
    let read = Form::new("the health policy").read(text, HealthPolicy::read);
    read.map(|(policy, _)| policy)
}

#[test]
fn what_is_absent_is_standard_and_what_is_zero_is_off() {
    assert_eq!(read("{}").unwrap(), HealthPolicy::standard());
    let off = read(
        r#"{
            "successRateEjection": {"enforcementPercentage": 0},
            "failurePercentageEjection": {"enforcementPercentage": 0},
            "consecutiveFailures": 0, "slowStart": "0s", "probeInterval": "0s",
            "interval": "10s", "baseEjectionTime": "30s", "maxEjectionTime": "300s",
            "maxEjectionPercent": 10
        }"#,
    );
    let a50 = HealthPolicy::a50().max_ejection_time(300 * SECOND);
    assert_eq!(off.unwrap(), a50);
}

#[test]
fn each_member_is_read_as_itself() {
    let text = r#"{
        "interval": "2s", "baseEjectionTime": "3s", "maxEjectionTime": "7s",
        "maxEjectionPercent": 41, "successRateEjection": {"stdevFactor": 1500, "minimumGap": 11,
        "enforcementPercentage": 91, "minimumHosts": 6, "requestVolume": 101},
        "failurePercentageEjection": {"threshold": 51, "enforcementPercentage": 92,
        "minimumHosts": 2, "requestVolume": 21}, "consecutiveFailures": 8, "slowStart": "9s",
        "probeInterval": "13s"
    }"#;
    let expected = HealthPolicy::standard()
        .interval(2 * SECOND)
        .base_ejection_time(3 * SECOND)
        .max_ejection_time(7 * SECOND)
        .max_ejection_percent(41)
        .success_rate(SuccessRateEjection {
            stdev_factor: 1500,
            minimum_gap: 11,
            enforcement_percentage: 91,
            minimum_hosts: 6,
            request_volume: 101,
        })
        .failure_percentage(FailurePercentageEjection {
            threshold: 51,
            enforcement_percentage: 92,
            minimum_hosts: 2,
            request_volume: 21,
        })
        .consecutive_failures(8)
        .slow_start(9 * SECOND)
        .probe_interval(13 * SECOND);
    assert_eq!(read(text).unwrap(), expected);
}

#[test]
fn a_member_of_an_ejection_leaves_the_others_standard() {
    let text = r#"{
        "successRateEjection": {"stdevFactor": 1500},
        "failurePercentageEjection": {"threshold": 70, "minimumHosts": 3}
    }"#;
    let standard = HealthPolicy::standard();
    let by_share = FailurePercentageEjection {
        threshold: 70,
        minimum_hosts: 3,
        ..standard.failure_percentage.unwrap()
    };
    let by_rate = SuccessRateEjection {
        stdev_factor: 1500,
        ..standard.success_rate.unwrap()
    };
    let expected = standard.failure_percentage(by_share).success_rate(by_rate);
    assert_eq!(read(text).unwrap(), expected);
}

/// O16
#[test]
fn percentages_above_100_and_negative_times_are_faults() {
    let faults = read(
        r#"{
            "maxEjectionPercent": 101, "interval": "-1s", "slowStart": 5,
            "failurePercentageEjection": {"threshold": 101, "enforcementPercentage": 1e9}
        }"#,
    );
    let faults = faults.unwrap_err();
    let mut paths: Vec<_> = faults
        .faults()
        .iter()
        .map(|fault| fault.path.as_str())
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "$.failurePercentageEjection.enforcementPercentage",
            "$.failurePercentageEjection.threshold",
            "$.interval",
            "$.maxEjectionPercent",
            "$.slowStart"
        ]
    );
    let high = HealthPolicy::standard().max_ejection_percent(500);
    assert_eq!(high, HealthPolicy::standard().max_ejection_percent(100));
}
