//! For each rule a scenario in which a policy with the fault does much worse than the corrected
//! one. The lab runs it whenever the rule finds something.

use std::sync::OnceLock;

use crate::report::Outcome;
use crate::run::Limits;
use crate::scenario::Scenario;

/// A counter-example.
#[derive(Clone, Copy, Debug)]
pub struct CounterExample {
    /// The rule.
    pub rule: &'static str,
    /// What is measured, the unit first; less is better.
    pub measure: &'static str,
    value: fn(&Outcome) -> f64,
    /// The scenario, with the policies `linted` and `corrected`.
    pub document: &'static str,
}

fn failed(outcome: &Outcome) -> f64 {
    (1.0 - outcome.success) * 100.0
}

fn extra(outcome: &Outcome) -> f64 {
    (outcome.amplification - 1.0) * 100.0
}

fn inner(outcome: &Outcome) -> f64 {
    outcome.tiers.last().map_or(0.0, |tier| tier.amplification)
}

fn tail(outcome: &Outcome) -> f64 {
    outcome.latency_ms.p99.unwrap_or(f64::INFINITY)
}

macro_rules! examples {
    ($($rule:literal, $measure:literal, $value:ident;)*) => {
        /// One for each rule.
        pub const COUNTER_EXAMPLES: &[CounterExample] = &[$(CounterExample {
            rule: $rule,
            measure: $measure,
            value: $value,
            document: include_str!(concat!("examples/", $rule, ".json")),
        }),*];
    };
}

examples! {
    "attempt-limit", "% of the calls fail", failed;
    "never-fits", "% of the calls fail", failed;
    "hedge-below-median", "ms for the 99th percentile", tail;
    "retries-multiply", "attempts a call at the last hop", inner;
    "no-throttle", "% more load during an outage", extra;
    "request-fed-budget", "% more load during an outage", extra;
    "no-jitter", "% of the calls fail", failed;
    "not-idempotent", "% of the requests sent twice", extra;
    "retry-after-herd", "% of the calls fail", failed;
    "tiny-throttle", "% of the calls fail", failed;
    "unearned-budget", "% of the calls fail", failed;
}

impl CounterExample {
    /// What is measured of the linted and of the corrected policy.
    #[must_use]
    pub fn run(&self) -> Option<[f64; 2]> {
        let scenario = Scenario::parse(self.document).ok()?;
        let report = scenario.simulate(&Limits::default()).ok()?;
        let value = |name| report.policy(name).map(self.value);
        Some([value("linted")?, value("corrected")?])
    }

    /// These values in words.
    #[must_use]
    pub fn seen(&self, linted: f64, corrected: f64) -> String {
        let measure = self.measure;
        let unit = measure.split(' ').next().unwrap_or_default();
        format!("{linted:.1} {measure} with it, {corrected:.1} {unit} when corrected")
    }
}

/// What the lab sees in the rule's counter-example, which it runs once.
pub(super) fn evidence(rule: &str) -> String {
    static SEEN: [OnceLock<String>; COUNTER_EXAMPLES.len()] =
        [const { OnceLock::new() }; COUNTER_EXAMPLES.len()];
    let examples = COUNTER_EXAMPLES.iter().zip(&SEEN);
    let mut of_rule = examples.filter(|(example, _)| example.rule == rule);
    let seen = of_rule
        .next()
        .map(|(example, seen)| seen.get_or_init(|| see(example)));
    seen.cloned().unwrap_or_default()
}

fn see(example: &CounterExample) -> String {
    let Some([linted, corrected]) = example.run() else {
        return String::new();
    };
    format!(
        "in the lab's counter-example {}",
        example.seen(linted, corrected)
    )
}
