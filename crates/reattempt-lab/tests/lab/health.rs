//! Backends with health: `with: {"health": …}`.

use reattempt_lab::Scenario;
use serde_json::{Value, json};

use super::{http, outcome};

/// Three backends, the second of which has this fault from second 10 to 40. Counted from second 12
/// to 40.
fn one_of_three(clients: u32, fault: Value) -> Value {
    let backend =
        |faults: Value| json!({"servers": 100, "latency": {"exponential_ms": 5}, "faults": faults});
    json!({
        "seed": 3, "duration_s": 40, "warmup_s": 12, "clients": clients, "rtt_ms": 1,
        "arrivals": [{"per_s": 300}],
        "call": {"method": "GET", "path": "/", "timeout_ms": 2000},
        "backends": [backend(json!([])), backend(json!([fault])), backend(json!([]))],
    })
}

fn silent() -> Value {
    json!({"from_s": 10, "to_s": 40, "kind": "silent"})
}

fn failing() -> Value {
    json!({"from_s": 10, "to_s": 40, "kind": "error"})
}

fn with_health(mut policy: Value) -> Value {
    policy["with"] = json!({"health": {}});
    policy
}

fn retrying() -> Value {
    let retry = json!({"maxAttempts": 3, "backoff": {"initial": "0.001s"}});
    http(json!({"retry": retry, "attemptTimeout": "0.1s"}))
}

fn hedging() -> Value {
    http(json!({"hedge": {"maxAttempts": 3, "delay": "0.05s"}}))
}

#[test]
fn few_feel_a_silent_backend_and_none_is_lost() {
    for clients in [1, 10] {
        for policy in [retrying(), hedging()] {
            let scenario = one_of_three(clients, silent());
            let without = outcome(scenario.clone(), policy.clone());
            assert!(without.latency_ms.p90 > Some(50.0), "a third waits");
            let with = outcome(scenario, with_health(policy));
            assert_eq!(with.success, 1.0);
            // An answer takes more than 40 ms in one of 2,000 calls.
            assert!(
                with.latency_ms.p99 < Some(40.0),
                "{clients} clients: {:?}",
                with.latency_ms
            );
        }
    }
}

#[test]
fn a_failing_backend_costs_few_attempts() {
    let scenario = one_of_three(1, failing());
    let without = outcome(scenario.clone(), retrying());
    assert!(without.amplification > 1.3);
    let with = outcome(scenario, with_health(retrying()));
    assert!(with.amplification < 1.01, "{}", with.amplification);
}

#[test]
fn if_all_backends_fail_all_are_asked() {
    let backend = json!({
        "servers": 100, "latency": {"fixed_ms": 1}, "faults": [{"to_s": 20, "kind": "error"}],
    });
    let scenario = json!({
        "duration_s": 40, "warmup_s": 21, "clients": 1, "arrivals": [{"per_s": 100}],
        "backends": [backend, backend, backend],
    });
    let seen = outcome(scenario, with_health(http(json!({}))));
    assert_eq!(seen.success, 1.0, "none is refused once they work");
}

#[test]
fn a_slow_backend_gets_less_than_its_share() {
    let slow = json!({"from_s": 0, "kind": "slow", "factor": 20});
    let scenario = one_of_three(1, slow);
    let mean = |policy| outcome(scenario.clone(), policy).latency_ms.mean.unwrap();
    let (without, with) = (mean(http(json!({}))), mean(with_health(http(json!({})))));
    assert!(without > 30.0, "{without}");
    assert!(with < 10.0, "{with}");
}

/// One of three backends fails for a second and stays ejected, unless a probe brings it back: a
/// hedge that is not the last attempt of its call. Later the two others are slow.
#[test]
fn health_of_the_policys_text_acts_as_that_of_the_stack() {
    let of_text = |health: Value| {
        let mut policy = retrying();
        policy["http_policy"]["health"] = health;
        policy
    };
    let run = |policy: Value| outcome(one_of_three(1, silent()), policy);
    let without = run(retrying());
    let with = run(with_health(retrying()));
    assert_ne!(with, without);
    assert_eq!(run(of_text(json!({}))), with);
    assert_eq!(run(of_text(Value::Null)), without);
    // Its members count, and those of the stack before them.
    let late =
        || json!({"consecutiveFailures": 0, "failurePercentageEjection": {"threshold": 100}});
    let mut scenario = one_of_three(1, silent());
    scenario["policies"] = json!({"text": of_text(late()), "both": with_health(of_text(late()))});
    let read = Scenario::parse(&scenario.to_string()).unwrap();
    assert_eq!(read.warnings().next(), None, "each member is one");
    let late_text = run(of_text(late()));
    assert_ne!(late_text, with);
    assert_eq!(run(with_health(of_text(late()))), with);
}

#[test]
fn a_hedge_that_may_lose_brings_a_backend_back() {
    let backend =
        |fault: Value| json!({"servers": 100, "latency": {"fixed_ms": 1}, "faults": [fault]});
    let slow = || backend(json!({"from_s": 7, "to_s": 60, "kind": "slow", "factor": 200}));
    let fails = backend(json!({"from_s": 5, "to_s": 6, "kind": "error"}));
    let scenario = json!({
        "seed": 3, "duration_s": 30, "warmup_s": 20, "clients": 1,
        "arrivals": [{"per_s": 30}],
        "call": {"method": "GET", "path": "/", "timeout_ms": 2000},
        "backends": [slow(), fails, slow()],
    });
    let mean = |attempts: u32| {
        let hedge = json!({"maxAttempts": attempts, "delay": "0.05s"});
        let mut policy = http(json!({"hedge": hedge}));
        let health = json!({"baseEjectionTime": "300s", "maxEjectionTime": "300s"});
        policy["with"] = json!({"health": health});
        outcome(scenario.clone(), policy).latency_ms.mean.unwrap()
    };
    assert!(mean(3) < 50.0, "{}", mean(3));
    assert!(mean(2) > 150.0, "{}", mean(2));
}
