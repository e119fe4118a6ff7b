//! Rules about throttles and budgets, which are asked what they allow after failures.

use std::sync::Arc;

use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, Stage, reason};

use super::probe::Probe;
use super::rules::{Found, found};
use crate::policy::Protocol;
use crate::scenario::Scenario;

const FAILURE: Failure = Failure::new(reason::UNKNOWN, Stage::Response);

/// A long outage, and then all that the throttle still allows.
fn exhaust(throttle: &Arc<dyn RetryThrottle>) {
    for _ in 0..3000 {
        throttle.settled(Settled::Failure(&FAILURE));
    }
    // A budget holds few tokens; a throttle that asks no price stays open.
    for _ in 0..10_000 {
        if !(throttle.allows(None) && throttle.spend(None)) {
            return;
        }
    }
}

pub(super) fn request_fed_budget(probe: &Probe, _: Option<&Scenario>) -> Found {
    let throttle = probe.budget.as_ref().and(probe.throttle())?;
    let mut allowed = 0_u32;
    for _ in 0..1000 {
        throttle.settled(Settled::Failure(&FAILURE));
        if throttle.allows(None) && throttle.spend(None) {
            allowed += 1;
        }
    }
    if allowed < 100 {
        return None;
    }
    found(
        probe.member(),
        format!(
            "{allowed} hedges are allowed while 1000 attempts in a row fail: the budget is fed by requests, whatever becomes of them. Add a throttle, which only successes feed"
        ),
    )
}

pub(super) fn tiny_throttle(probe: &Probe, _: Option<&Scenario>) -> Found {
    probe.retries().or(probe.hedge().map(|_| 2))?;
    let throttle = probe.throttle().filter(|_| probe.budget.is_none())?;
    let before = throttle.allows(None);
    throttle.settled(Settled::Failure(&FAILURE));
    if !before || throttle.allows(None) {
        return None;
    }
    let place = if probe.protocol == Protocol::Http {
        ".throttle"
    } else {
        ""
    };
    found(
        place,
        "one failure closes the throttle, so that nothing is ever retried after it: use more tokens",
    )
}

/// The most successes that it may take; of a client with fewer calls, those of ten minutes.
const MANY: u32 = 1000;

pub(super) fn unearned_budget(probe: &Probe, scenario: Option<&Scenario>) -> Found {
    probe.retries().or(probe.hedge().map(|_| 2))?;
    let throttle = probe.throttle()?;
    exhaust(throttle);
    let most = scenario.map_or(MANY, |scenario| {
        let highest = scenario
            .arrivals
            .iter()
            .map(|(_, rate)| *rate)
            .fold(0.0, f64::max);
        let each = highest * 600.0 / f64::from(scenario.clients);
        each.clamp(1.0, f64::from(MANY)) as u32
    });
    for _ in 0..most {
        throttle.settled(Settled::Success);
        if throttle.allows(None) {
            return None;
        }
    }
    let place = match (probe.protocol, probe.budget.is_some()) {
        (Protocol::Http, false) => ".throttle",
        (Protocol::Http, true) => ".hedge",
        _ => "",
    };
    found(
        place,
        format!("once it is spent, {most} successes in a row earn no further attempt"),
    )
}
