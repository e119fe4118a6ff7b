//! Search: what the knobs of a policy buy, and what they cost.
//!
//! Every combination of the knobs' values runs in the scenario, on several seeds. What is kept is
//! the frontier: the points that no other one beats in success, extra load and the 99th percentile
//! of the time, in which a hedge shows that fails no less often.

mod knob;

use reattempt::config::{Fault, Faults};
use serde::Serialize;
use serde_json::Value;

pub use knob::{Knob, Range};

use crate::policy::{PolicyText, Stack};
use crate::run::{Limits, message};
use crate::scenario::Scenario;
use crate::world::Stopped;

/// The most combinations of a search.
pub const MOST_POINTS: usize = 1000;
/// The most seeds of a search.
pub const MOST_SEEDS: u32 = 100;

/// A policy of the frontier.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The values of the knobs.
    pub settings: Vec<(Knob, f64)>,
    /// The share of calls that ended well, the mean of the seeds.
    pub success: f64,
    /// Attempts beyond one for each call that was sent, at the first tier that is called under the
    /// policy, the mean of the seeds; `None` if none was.
    pub extra_load: Option<f64>,
    /// The 99th percentile in milliseconds, the mean of the seeds; `None` if no call ended well.
    pub p99_ms: Option<f64>,
    /// The policy, as it stands in a scenario.
    pub policy: Value,
}

fn fault(path: impl Into<String>, what: impl Into<String>) -> Faults {
    Faults::new("the search", vec![Fault::new(path, what.into())])
}

/// The frontier of a policy of a scenario: by falling success, then rising load, then rising time.
/// Every point runs on `seeds` seeds from the scenario's own.
///
/// # Errors
/// There is no such policy, it does not have the knob, a knob is named twice, there are more than
/// [`MOST_POINTS`] points, a value is none that the policy can have, or all runs together need more
/// events than they may.
pub fn tune(
    scenario: &Scenario,
    name: &str,
    ranges: &[Range],
    seeds: u32,
    limits: &Limits,
) -> Result<Vec<Point>, Faults> {
    let policy = scenario.policies.iter().find(|(known, _)| known == name);
    let Some((_, policy)) = policy else {
        return Err(fault("$.policies", format!("has no {name}")));
    };
    if ranges.is_empty() || !(1..=MOST_SEEDS).contains(&seeds) {
        return Err(fault("--tune", "needs a knob, and from 1 to 100 seeds"));
    }
    let path = &policy.path;
    let mut settings: Vec<Vec<(Knob, f64)>> = vec![Vec::new()];
    for (at, range) in ranges.iter().enumerate() {
        if ranges[..at].iter().any(|before| before.knob == range.knob) {
            let what = format!("names the knob {} twice", range.knob.name());
            return Err(fault("--tune", what));
        }
        let mut known = policy.document();
        if !range.knob.set(&mut known, range.from) {
            let what = match range.knob.member(&known) {
                Some(member) => {
                    format!("has no {member}: add it, or name another policy by --tuned")
                }
                None => format!(
                    "cannot have the knob {}: name another policy by --tuned",
                    range.knob.name()
                ),
            };
            return Err(fault(path, what));
        }
        let values = range.values();
        if settings.len() * values.len() > MOST_POINTS {
            return Err(fault("--tune", "has more than 1000 combinations"));
        }
        let with = |value: &f64| {
            let value = *value;
            let more = move |before: &Vec<(Knob, f64)>| {
                [before.as_slice(), &[(range.knob, value)]].concat()
            };
            settings.iter().map(more).collect::<Vec<_>>()
        };
        settings = values.iter().flat_map(with).collect();
    }
    let mut left = limits.max_events;
    let points = settings.into_iter().map(|settings| {
        let mut document = policy.document();
        for (knob, value) in &settings {
            knob.set(&mut document, *value);
        }
        let tested = PolicyText::of_document(&document.to_string()).map_err(|refused| {
            let faults = refused.faults().iter().cloned();
            let below = faults.map(|fault| fault.below(path)).collect();
            Faults::new("the search", below)
        })?;
        let tested = policy.around(tested);
        point(scenario, &tested, seeds, &mut left, settings, document).map_err(|stopped| {
            let what = match stopped {
                Stopped::Events => format!(
                    "the search was ended after {} events: ask for fewer combinations or seeds, or for more --max-events",
                    limits.max_events
                ),
                stopped => message(stopped, limits),
            };
            fault(path, what)
        })
    });
    Ok(frontier(points.collect::<Result<_, Faults>>()?))
}

fn point(
    scenario: &Scenario,
    tested: &Stack,
    seeds: u32,
    left: &mut u64,
    settings: Vec<(Knob, f64)>,
    policy: Value,
) -> Result<Point, Stopped> {
    let mut success = 0.0;
    let (mut load, mut tail) = (Mean::default(), Mean::default());
    let mut seeded = scenario.clone();
    for nth in 0..seeds {
        seeded.seed = scenario.seed.wrapping_add(nth.into());
        let outcome = seeded.run_policy(tested, left)?;
        success += outcome.success;
        let tier = scenario
            .tested_tier()
            .and_then(|tier| outcome.tiers.get(tier));
        let (attempts, calls) = match tier {
            Some(tier) => (tier.attempts, tier.initial),
            None => (outcome.attempts, outcome.kinds.initial),
        };
        load.add((calls > 0).then(|| attempts as f64 / calls as f64 - 1.0));
        tail.add(outcome.latency_ms.p99);
    }
    Ok(Point {
        settings,
        success: success / f64::from(seeds),
        extra_load: load.of(),
        p99_ms: tail.of(),
        policy,
    })
}

/// The mean of the seeds that have a value.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1.0;
        }
    }

    fn of(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// Those that no other one beats, and of equal ones the first.
fn frontier(mut points: Vec<Point>) -> Vec<Point> {
    let tail = |point: &Point| point.p99_ms.unwrap_or(f64::INFINITY);
    // Where no call was sent, no attempt was either.
    let load = |point: &Point| point.extra_load.unwrap_or(0.0);
    points.sort_by(|a, b| {
        let by_success = b.success.total_cmp(&a.success);
        let by_load = by_success.then(load(a).total_cmp(&load(b)));
        by_load.then(tail(a).total_cmp(&tail(b)))
    });
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        // Only an earlier one can beat it.
        let beats = |by: &Point| load(by) <= load(&point) && tail(by) <= tail(&point);
        if !kept.iter().any(beats) {
            kept.push(point);
        }
    }
    kept
}
