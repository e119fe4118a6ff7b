//! A health policy as JSON: A50's members by the names of its JSON form, and ours beside them.

use std::time::Duration;

use super::{FailurePercentageEjection, HealthPolicy, SuccessRateEjection};
use crate::config::{Json, Members, Place, duration, integer};

impl HealthPolicy {
    /// The members of the object.
    pub const MEMBERS: &[&str] = &[
        "interval",
        "baseEjectionTime",
        "maxEjectionTime",
        "maxEjectionPercent",
        "successRateEjection",
        "failurePercentageEjection",
        "consecutiveFailures",
        "slowStart",
        "probeInterval",
    ];

    /// Reads a policy; what is absent is as in [`standard`](Self::standard). All
    /// members, each with an example:
    ///
    /// `{"interval": "1s", "baseEjectionTime": "4s", "maxEjectionTime": "4s",
    /// "maxEjectionPercent": 50, "successRateEjection": {"stdevFactor": 1900,
    /// "enforcementPercentage": 100, "minimumHosts": 5, "requestVolume": 100},
    /// "failurePercentageEjection": {"threshold": 50, "enforcementPercentage": 100, "minimumHosts":
    /// 1, "requestVolume": 20}, "consecutiveFailures": 5, "slowStart": "4s", "probeInterval":
    /// "1s"}`
    ///
    /// Faults are recorded in `place`: a document that has one is refused by its
    /// [`Form`](crate::config::Form). An enforcement of 0 switches an ejection off, and so does 0
    /// `consecutiveFailures`; `"probeInterval": "0s"` switches probes off.
    pub fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let members = Members::of(place, json, Self::MEMBERS)?;
        let mut time = |name, above_zero| {
            let read = |place: &mut Place<'_>, json: Json<'_>| duration(place, json, above_zero);
            members.optional(place, name, read)
        };
        let mut policy = Self::standard();
        if let Some(interval) = time("interval", true) {
            policy = policy.interval(interval);
        }
        if let Some(base) = time("baseEjectionTime", false) {
            policy = policy.base_ejection_time(base);
        }
        if let Some(max) = time("maxEjectionTime", false) {
            policy = policy.max_ejection_time(max);
        }
        if let Some(slow_start) = time("slowStart", false) {
            policy = policy.slow_start(slow_start);
        }
        if let Some(interval) = time("probeInterval", false) {
            policy = policy.probe_interval(Some(interval).filter(|time| *time > Duration::ZERO));
        }
        if let Some(most) = members.optional(place, "maxEjectionPercent", percent) {
            policy = policy.max_ejection_percent(most);
        }
        if let Some(most) = members.optional(place, "consecutiveFailures", number) {
            policy = policy.consecutive_failures(Some(most).filter(|most| *most > 0));
        }
        let of = SuccessRateEjection::default();
        let standard = [of.stdev_factor, of.minimum_hosts, of.request_volume];
        let by_rate = members.optional(place, "successRateEjection", |place, json| {
            let [
                stdev_factor,
                minimum_hosts,
                request_volume,
                enforcement_percentage,
            ] = ejection(place, json, ("stdevFactor", number), standard)?;
            Some(SuccessRateEjection {
                stdev_factor,
                enforcement_percentage,
                minimum_hosts,
                request_volume,
            })
        });
        if let Some(by) = by_rate {
            policy = policy.success_rate(Some(by).filter(|by| by.enforcement_percentage > 0));
        }
        let of = policy.failure_percentage.unwrap_or_default();
        let standard = [of.threshold, of.minimum_hosts, of.request_volume];
        let by_share = members.optional(place, "failurePercentageEjection", |place, json| {
            let [
                threshold,
                minimum_hosts,
                request_volume,
                enforcement_percentage,
            ] = ejection(place, json, ("threshold", percent), standard)?;
            Some(FailurePercentageEjection {
                threshold,
                enforcement_percentage,
                minimum_hosts,
                request_volume,
            })
        });
        if let Some(by) = by_share {
            policy = policy.failure_percentage(Some(by).filter(|by| by.enforcement_percentage > 0));
        }
        Some(policy)
    }
}

type Read = fn(&mut Place<'_>, Json<'_>) -> Option<u32>;

/// An algorithm's own number, its minimum of hosts, its volume, and how often it is enforced.
fn ejection(
    place: &mut Place<'_>,
    json: Json<'_>,
    (name, read): (&str, Read),
    standard: [u32; 3],
) -> Option<[u32; 4]> {
    let known = [
        name,
        "minimumHosts",
        "requestVolume",
        "enforcementPercentage",
    ];
    let members = Members::of(place, json, &known)?;
    let mut or = |at: usize, read: Read, absent| {
        let read = members.optional(place, known[at], read);
        read.unwrap_or(absent)
    };
    let [own, hosts, volume] = standard;
    Some([
        or(0, read, own),
        or(1, number, hosts),
        or(2, number, volume),
        or(3, percent, 100),
    ])
}

fn percent(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let must = "a percentage: a whole number from 0 to 100";
    u32::try_from(integer(place, json, must, 0, 100)?).ok()
}

fn number(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let must = "a whole number from 0 to 4294967295";
    u32::try_from(integer(place, json, must, 0, u32::MAX.into())?).ok()
}
