//! The lab against known results, its contract, and hostile documents.

mod amplification;
mod charts;
mod contract;
mod findings;
mod health;
mod hedging;
mod hostile;
mod jitter;
mod learned;
mod lint;
mod overload;
mod queueing;
mod readings;
mod tune;
mod warnings;

use reattempt_lab::{Limits, Outcome, Report, Scenario};
use serde_json::{Value, json};

/// The result of a scenario.
fn run(scenario: &Value) -> Report {
    let scenario =
        Scenario::parse(&scenario.to_string()).unwrap_or_else(|faults| panic!("{faults}"));
    scenario
        .run(&Limits::default())
        .unwrap_or_else(|faults| panic!("{faults}"))
}

/// The outcome of this policy in a scenario without policies.
fn outcome(mut scenario: Value, policy: Value) -> Outcome {
    scenario["policies"] = json!({ "tested": policy });
    run(&scenario).policies.remove(0).1
}

/// A world of one call, in which this policy is `p`.
fn one_call(policy: Value) -> Value {
    let mut scenario = world(1.0, 1.0, 1, json!({"fixed_ms": 1}), json!([]));
    scenario["policies"] = json!({ "p": policy });
    scenario
}

fn http(route: Value) -> Value {
    json!({"http_policy": {"default": route}})
}

fn once() -> Value {
    http(json!({}))
}

/// One server with these workers and times, and calls at this rate.
fn world(duration_s: f64, per_s: f64, servers: u32, latency: Value, faults: Value) -> Value {
    json!({
        "seed": 7,
        "duration_s": duration_s,
        "arrivals": [{"from_s": 0, "per_s": per_s}],
        "backends": [{"servers": servers, "latency": latency, "faults": faults}],
    })
}

fn near(measured: f64, exact: f64, share: f64, what: &str) {
    let off = (measured / exact - 1.0).abs();
    assert!(off <= share, "{what}: {measured} is {off} off {exact}");
}
