//! What is wrong with a policy: composition faults, each with a reason, its place, and a
//! counter-example that the lab ran.
//!
//! A rule does not read the policy's text a second time: it asks the parsed policy. A strategy is
//! asked for its delays, a throttle is fed failures, a classifier is shown answers.
//!
//! ```
//! use reattempt_lab::{PolicyText, lint::lint};
//!
//! let policy = r#"{"default": {
//!     "retry": {"maxAttempts": 3}, "timeout": "1s", "attemptTimeout": "2s"
//! }}"#;
//! let findings = lint(&PolicyText::HttpPolicy(policy.to_owned()));
//! let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
//! assert_eq!(rules, ["attempt-limit", "no-throttle"]);
//! assert_eq!(findings[0].path, "$.default.attemptTimeout");
//! ```

mod asked;
mod examples;
mod found;
mod probe;
mod routes;
mod rules;
mod throttles;

use std::collections::HashSet;

use crate::policy::{PolicyText, Stack};
pub use crate::report::Finding;
use crate::report::Report;
use crate::run::Limits;
use crate::scenario::Scenario;
pub use examples::{COUNTER_EXAMPLES, CounterExample};
use probe::Probe;
use reattempt::config::Faults;

/// At most this many routes of a policy are looked at.
const MOST_ROUTES: usize = 1000;

impl Scenario {
    /// Runs all policies, one after another, on the same arrivals and service times.
    ///
    /// # Errors
    /// A run that needs more events than it may.
    pub fn run(&self, limits: &Limits) -> Result<Report, Faults> {
        let mut report = self.simulate(limits)?;
        for ((_, policy), (_, outcome)) in self.policies.iter().zip(&mut report.policies) {
            outcome.findings = lint_in(policy, self);
        }
        Ok(report)
    }
}

/// The findings that need no scenario.
#[must_use]
pub fn lint(policy: &PolicyText) -> Vec<Finding> {
    find(policy, None)
}

/// The findings of a policy in a scenario.
fn lint_in(stack: &Stack, scenario: &Scenario) -> Vec<Finding> {
    let mut found = find(stack, Some(scenario));
    // The governor takes the place of the policy's throttle.
    let of_throttles = [
        "retries-multiply",
        "no-throttle",
        "request-fed-budget",
        "tiny-throttle",
        "unearned-budget",
    ];
    found.retain(|finding| !stack.is_governed() || !of_throttles.contains(&finding.rule));
    // Marks keep the hops from multiplying.
    let marked = stack.hop_marks && !rules::inner_retries(scenario).unmarked;
    found.retain(|finding| !marked || finding.rule != "retries-multiply");
    found
}

fn find(policy: &PolicyText, scenario: Option<&Scenario>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    // The clients' calls go to the first tier.
    let calls = scenario.filter(|scenario| scenario.tested_tier() == Some(0));
    let calls = calls.map_or(&[][..], |scenario| &scenario.calls);
    for probe in Probe::all(policy, calls).into_iter().take(MOST_ROUTES) {
        for rule in rules::RULES {
            if let Some((place, text)) = (rule.check)(&probe, scenario) {
                let path = if place.starts_with('$') {
                    place
                } else {
                    format!("{}{place}", probe.path)
                };
                // The others are the first one's consequences for another route.
                if !known.insert((rule.name, path.clone())) {
                    continue;
                }
                found.push(Finding {
                    rule: rule.name,
                    path,
                    text,
                    evidence: examples::evidence(rule.name),
                });
            }
        }
    }
    found
}
