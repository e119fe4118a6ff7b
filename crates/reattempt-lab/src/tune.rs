//! Search: what the knobs of a policy buy, and what they cost.
//!
//! Every combination of the knobs' values runs in the scenario, on several seeds. What is kept is
//! the frontier: the points that no other one beats in both success and extra load.

use reattempt::config::{Fault, Faults};
use serde::Serialize;
use serde_json::{Value, json};

use crate::policy::PolicyText;
use crate::run::Limits;
use crate::scenario::Scenario;

/// The most combinations of a search.
pub const MOST_POINTS: usize = 1000;
/// The most seeds of a search.
pub const MOST_SEEDS: u32 = 100;
/// The most values of one knob.
const MOST_VALUES: usize = 6;

/// A number of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The most attempts of a call, the first included.
    Attempts,
    /// The delay before the first retry, in seconds.
    Backoff,
    /// The delay before a hedge, in seconds.
    HedgeDelay,
    /// The hedges for a hundred calls.
    HedgeShare,
    /// The tokens of a throttle.
    Throttle,
}

/// A knob, and the bounds of its values, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// What varies.
    pub knob: Knob,
    /// The smallest value.
    pub from: f64,
    /// The largest value.
    pub to: f64,
}

/// A policy of the frontier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The values of the knobs.
    pub settings: Vec<(Knob, f64)>,
    /// The share of calls that ended well, the mean of the seeds.
    pub success: f64,
    /// Attempts beyond one for each call, the mean of the seeds.
    pub extra_load: f64,
    /// The 99th percentile in milliseconds, the mean of the seeds; `None` if no call ended well.
    pub p99_ms: Option<f64>,
    /// The policy, as it stands in a scenario.
    pub policy: Value,
}

impl Knob {
    const ALL: [(&'static str, Self); 5] = [
        ("attempts", Self::Attempts),
        ("backoff", Self::Backoff),
        ("hedge-delay", Self::HedgeDelay),
        ("hedge-share", Self::HedgeShare),
        ("throttle", Self::Throttle),
    ];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, knob)| *knob == self)
            .map_or("", |(name, _)| name)
    }

    /// Where the knob is: in every route, and once for all.
    fn places(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Attempts => (
                &[
                    "/retry/maxAttempts",
                    "/hedge/maxAttempts",
                    "/retryPolicy/maxAttempts",
                    "/hedgingPolicy/maxAttempts",
                ],
                &["/kv/max_attempts"],
            ),
            Self::Backoff => (
                &["/retry/backoff/initial", "/retryPolicy/initialBackoff"],
                &["/kv/constant_ms"],
            ),
            Self::HedgeDelay => (&["/hedge/delay", "/hedgingPolicy/hedgingDelay"], &[]),
            Self::HedgeShare => (&["/hedge/budgetPercent"], &[]),
            Self::Throttle => (&[], &["/service_config/retryThrottling/maxTokens"]),
        }
    }

    /// Sets it everywhere where the policy has it. False if it has it nowhere.
    fn set(self, policy: &mut Value, value: f64) -> bool {
        let (of_routes, of_all) = self.places();
        let mut found = false;
        let mut put = |at: &mut Value| {
            *at = match at {
                // Durations are texts, as in the protocol.
                Value::String(_) => Value::String(format!("{value}s")),
                _ if self == Self::Backoff => json!((value * 1000.0).round() as u64),
                _ if value.fract() == 0.0 => json!(value as u64),
                _ => json!(value),
            };
            found = true;
        };
        for place in of_all {
            if let Some(at) = policy.pointer_mut(place) {
                put(at);
            }
        }
        if self == Self::Throttle {
            let named = policy.pointer_mut("/http_policy/throttles");
            for (_, throttle) in named.and_then(Value::as_object_mut).into_iter().flatten() {
                if let Some(at) = throttle.get_mut("maxTokens") {
                    put(at);
                }
            }
        }
        for route in routes(policy) {
            for place in of_routes {
                if let Some(at) = route.pointer_mut(place) {
                    put(at);
                }
            }
        }
        found
    }

    /// Whole numbers, or at most nine decimal places.
    fn rounded(self, value: f64) -> f64 {
        match self {
            Self::Attempts | Self::Throttle => value.round(),
            Self::HedgeShare => (value * 10.0).round() / 10.0,
            Self::Backoff | Self::HedgeDelay => (value * 1e3).round() / 1e3,
        }
    }
}

/// The routes of a policy, the default included.
fn routes(policy: &mut Value) -> Vec<&mut Value> {
    let mut found = Vec::new();
    let members = |value| Value::as_object_mut(value).into_iter().flatten();
    for (form, text) in members(policy) {
        let is_http = form == "http_policy";
        for (name, part) in members(text) {
            if is_http && name == "default" {
                found.push(part);
            } else if name == if is_http { "routes" } else { "methodConfig" } {
                found.extend(part.as_array_mut().into_iter().flatten());
            }
        }
    }
    found
}

impl Range {
    /// Reads `attempts=1..5`; back-off and hedge delay are in seconds.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "must be a knob and its bounds, such as attempts=1..5";
        let (name, bounds) = text.split_once('=').ok_or(FORM)?;
        let names = Knob::ALL.map(|(name, _)| name).join(", ");
        let knob = Knob::ALL.iter().find(|(known, _)| *known == name);
        let (_, knob) = knob.ok_or_else(|| format!("{name} is no knob: there are {names}"))?;
        let (from, to) = bounds.split_once("..").ok_or(FORM)?;
        let number = |text: &str| text.parse::<f64>().map_err(|_| FORM);
        let (from, to) = (number(from)?, number(to)?);
        if !(from >= 0.001 && to <= 1e6 && from <= to) {
            return Err("the bounds must be from 0.001 to 1e6, the smaller one first".to_owned());
        }
        Ok(Self {
            knob: *knob,
            from,
            to,
        })
    }

    /// All whole numbers of a short range, else steps of one factor.
    fn values(&self) -> Vec<f64> {
        let whole = matches!(self.knob, Knob::Attempts | Knob::Throttle);
        let count = self.to.floor() - self.from.ceil() + 1.0;
        if whole && count <= MOST_VALUES as f64 {
            let first = self.from.ceil();
            return (0..count.max(0.0) as u32)
                .map(|nth| first + f64::from(nth))
                .collect();
        }
        let last = (MOST_VALUES - 1) as f64;
        let step = |nth: usize| {
            let share = nth as f64 / last;
            self.from * libm::pow(self.to / self.from, share)
        };
        let mut values: Vec<f64> = (0..MOST_VALUES)
            .map(|nth| self.knob.rounded(step(nth)))
            .collect();
        values.dedup();
        values
    }
}

fn fault(path: impl Into<String>, what: impl Into<String>) -> Faults {
    Faults::new("the search", vec![Fault::new(path, what.into())])
}

/// The frontier of a policy of a scenario: by falling success, so by falling load. Every point
/// runs on `seeds` seeds from the scenario's own.
///
/// # Errors
/// There is no such policy, it does not have the knob, there are more than [`MOST_POINTS`] points,
/// a value is none that the policy can have, or a run needs more events than it may.
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
    let path = format!("$.policies.{name}");
    let mut settings: Vec<Vec<(Knob, f64)>> = vec![Vec::new()];
    for range in ranges {
        let mut known = policy.document();
        if !range.knob.set(&mut known, range.from) {
            let what = format!("does not set {}", range.knob.name());
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
    let points = settings.into_iter().map(|settings| {
        let mut document = policy.document();
        for (knob, value) in &settings {
            knob.set(&mut document, *value);
        }
        let tested = PolicyText::of_document(&document.to_string())?;
        point(scenario, tested, seeds, limits, settings, document)
    });
    Ok(frontier(points.collect::<Result<_, Faults>>()?))
}

fn point(
    scenario: &Scenario,
    tested: PolicyText,
    seeds: u32,
    limits: &Limits,
    settings: Vec<(Knob, f64)>,
    policy: Value,
) -> Result<Point, Faults> {
    let mut one = scenario.clone();
    one.policies = vec![("tested".to_owned(), tested)];
    let (mut success, mut load, mut tail, mut tails) = (0.0, 0.0, 0.0, 0.0);
    for nth in 0..seeds {
        let seeded = one
            .clone()
            .with_seed(scenario.seed.wrapping_add(nth.into()));
        let report = seeded.simulate(limits)?;
        for (_, outcome) in &report.policies {
            success += outcome.success;
            load += outcome.amplification;
            if let Some(p99) = outcome.latency_ms.p99 {
                tail += p99;
                tails += 1.0;
            }
        }
    }
    let seeds = f64::from(seeds);
    Ok(Point {
        settings,
        success: success / seeds,
        extra_load: load / seeds - 1.0,
        p99_ms: (tails > 0.0).then(|| tail / tails),
        policy,
    })
}

/// Those that no other one beats.
fn frontier(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| {
        let by_success = b.success.total_cmp(&a.success);
        by_success.then(a.extra_load.total_cmp(&b.extra_load))
    });
    let mut least = f64::INFINITY;
    points.retain(|point| {
        let is_better = point.extra_load < least;
        least = least.min(point.extra_load);
        is_better
    });
    points
}
