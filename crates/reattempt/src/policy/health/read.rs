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
    /// "maxEjectionPercent": 50, "successRateEjection": {"stdevFactor": 1900, "minimumGap": 10,
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
        let of = policy.success_rate.unwrap_or_default();
        let own: [Own; 2] = [
            ("stdevFactor", number, of.stdev_factor),
            ("minimumGap", percent, of.minimum_gap),
        ];
        let standard = [of.minimum_hosts, of.request_volume];
        let by_rate = members.optional(place, "successRateEjection", |place, json| {
            let ([stdev_factor, minimum_gap], common) = ejection(place, json, own, standard)?;
            let [minimum_hosts, request_volume, enforcement_percentage] = common;
            Some(SuccessRateEjection {
                stdev_factor,
                minimum_gap,
                enforcement_percentage,
                minimum_hosts,
                request_volume,
            })
        });
        if let Some(by) = by_rate {
            policy = policy.success_rate(Some(by).filter(|by| by.enforcement_percentage > 0));
        }
        let of = policy.failure_percentage.unwrap_or_default();
        let own: [Own; 1] = [("threshold", percent, of.threshold)];
        let standard = [of.minimum_hosts, of.request_volume];
        let by_share = members.optional(place, "failurePercentageEjection", |place, json| {
            let ([threshold], common) = ejection(place, json, own, standard)?;
            let [minimum_hosts, request_volume, enforcement_percentage] = common;
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

/// A number that only one of the algorithms has: its name, how it is read, and its standard.
type Own = (&'static str, Read, u32);

/// An algorithm's own numbers; and its minimum of hosts, its volume, and how often it is enforced.
fn ejection<const N: usize>(
    place: &mut Place<'_>,
    json: Json<'_>,
    own: [Own; N],
    [hosts, volume]: [u32; 2],
) -> Option<([u32; N], [u32; 3])> {
    let common: [Own; 3] = [
        ("minimumHosts", number, hosts),
        ("requestVolume", number, volume),
        ("enforcementPercentage", percent, 100),
    ];
    let known: Vec<_> = own.iter().chain(&common).map(|(name, ..)| *name).collect();
    let members = Members::of(place, json, &known)?;
    let mut or = |(name, read, standard): Own| {
        let read = members.optional(place, name, read);
        read.unwrap_or(standard)
    };
    Some((own.map(&mut or), common.map(or)))
}

fn percent(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let must = "a percentage: a whole number from 0 to 100";
    u32::try_from(integer(place, json, must, 0, 100)?).ok()
}

fn number(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let must = "a whole number from 0 to 4294967295";
    u32::try_from(integer(place, json, must, 0, u32::MAX.into())?).ok()
}
