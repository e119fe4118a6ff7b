//! Rules about throttles and budgets.

use super::asked::{MANY, TEN_MINUTES};
use super::found::{Found, found};
use super::probe::Probe;
use crate::scenario::Scenario;

pub(super) fn request_fed_budget(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    let allowed = probe.budget.as_ref().and(probe.throttle())?.allowed;
    if allowed < 50 {
        return None;
    }
    found(
        probe.member(),
        format!(
            "{allowed} hedges are allowed while the second 500 of 1000 attempts in a row fail: the budget is fed by requests, whatever becomes of them. Add a throttle, which only successes feed"
        ),
    )
}

pub(super) fn tiny_throttle(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    if !probe.repeats() {
        return None;
    }
    let throttle = probe.throttle().filter(|_| probe.budget.is_none())?;
    if !throttle.closes_at_once {
        return None;
    }
    found(
        probe.throttle_place(),
        "one failure closes the throttle, so that nothing is ever retried after it: use more tokens",
    )
}

pub(super) fn unearned_budget(probe: &Probe<'_>, scenario: Option<&Scenario>) -> Found {
    if !probe.repeats() {
        return None;
    }
    let throttle = probe.throttle()?;
    let most = scenario.map_or(MANY, |scenario| {
        let highest = scenario
            .arrivals
            .iter()
            .map(|(_, rate)| *rate)
            .fold(0.0, f64::max);
        let callers = scenario.callers(scenario.tested_tier().unwrap_or(0));
        let each = highest * TEN_MINUTES.as_secs_f64() / callers as f64;
        each.clamp(1.0, f64::from(MANY)) as u32
    });
    if throttle.earns_after.is_some_and(|after| after <= most) {
        return None;
    }
    // What is earned may be held back by both, and the budget is that of the hedges.
    let place = match probe.budget {
        Some(_) => probe.member(),
        None => probe.throttle_place(),
    };
    found(
        place,
        format!("once it is spent, {most} successes in a row earn no further attempt"),
    )
}
