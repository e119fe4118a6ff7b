//! One hedge after a delay: the analytic tail and its optimum under a budget.

use reattempt_lab::{Limits, Scenario};
use serde_json::{Value, json};

use super::{http, near, outcome, world};

/// The share of hedges that the budget allows.
const BUDGET: f64 = 0.05;

/// The smallest time that is not passed by more than 1 % of the calls, if a hedge is sent after
/// `delay` and the budget allows a share `q` of those that are due.
fn p99(survival: &dyn Fn(f64) -> f64, delay: f64) -> f64 {
    let q = (BUDGET / survival(delay)).min(1.0);
    let late = |t: f64| {
        let hedge = if t < delay { 1.0 } else { survival(t - delay) };
        survival(t) * (1.0 - q + q * hedge)
    };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if late(middle) > 0.01 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// A hedge in seconds of the policy's text.
fn policy(delay_ms: f64) -> Value {
    let delay = format!("{:.9}s", delay_ms / 1000.0);
    let percent = BUDGET * 100.0;
    http(json!({"hedge": {"maxAttempts": 2, "delay": delay, "budgetPercent": percent}}))
}

fn check(latency: &Value, survival: &dyn Fn(f64) -> f64, delays: &[f64]) {
    let seen: Vec<f64> = delays
        .iter()
        .map(|delay| {
            let free = world(200.0, 1000.0, 1_000_000, latency.clone(), json!([]));
            let seen = outcome(free, policy(*delay));
            // A budget that is full earns nothing: a little less than its share is sent.
            let due = survival(*delay).min(BUDGET);
            let hedges = seen.amplification - 1.0;
            assert!(
                (0.93 * due..1.02 * due).contains(&hedges),
                "{hedges} of {due}"
            );
            let tail = seen.latency_ms.p99.unwrap();
            near(
                tail,
                p99(survival, *delay),
                0.03,
                &format!("p99 with a hedge after {delay}"),
            );
            tail
        })
        .collect();
    let best = |of: &dyn Fn(f64) -> f64| {
        let all = (1..4000).map(|step| f64::from(step) * delays[delays.len() - 1] / 4000.0);
        all.map(of).fold(f64::INFINITY, f64::min)
    };
    let optimum = best(&|delay| p99(survival, delay));
    let best_seen = seen.iter().copied().fold(f64::INFINITY, f64::min);
    near(best_seen, optimum, 0.03, "the optimum");
}

#[test]
fn exponential_tails_and_their_best_hedge_delay() {
    let survival = |t: f64| (-t / 10.0).exp();
    check(
        &json!({"exponential_ms": 10}),
        &survival,
        &[20.0, 25.0, 30.0, 35.0, 40.0],
    );
}

#[test]
fn pareto_tails_and_their_best_hedge_delay() {
    let survival = |t: f64| if t < 5.0 { 1.0 } else { (5.0 / t).powi(2) };
    let latency = json!({"pareto": {"min_ms": 5, "alpha": 2}});
    check(&latency, &survival, &[12.0, 16.0, 20.0, 22.36, 26.0, 32.0]);
}

/// Of two silent attempts the hedge is held back, and no limit of time ends the call.
#[test]
fn a_hedge_that_is_held_back_for_ever_ends_the_run() {
    let latency = json!({"exponential_ms": 5});
    let silent = json!([{"kind": "silent", "share": 0.05}]);
    let mut scenario = world(10.0, 50.0, 1000, latency, silent);
    let hedge = json!({"extraLoadPercent": 2, "maxAttempts": 3});
    scenario["policies"] = json!({ "learns": http(json!({"hedge": hedge})) });
    let scenario = Scenario::parse(&scenario.to_string()).unwrap();
    let limits = Limits {
        max_events: 100_000,
    };
    let report = scenario.run(&limits).unwrap();
    let seen = report.policy("learns").unwrap();
    assert!(seen.ended["never"] > 0, "{:?}", seen.ended);
    let ended: u64 = seen.ended.values().sum();
    assert_eq!(ended, seen.calls);
}
