//! The governor and admission against no retries and A6's bucket: the figures of
//! `docs/overload.md`, each with room. `benches/tables` prints them all.

mod worlds;

use reattempt_lab::Outcome;
use serde_json::{Value, json};

use super::outcome;
use worlds::{BOTH, CAPACITY, GOVERNOR, TRIGGERS, Trigger, policies};

fn under(name: &str, world: &Value) -> Outcome {
    let mut all = policies().into_iter();
    let (_, policy) = all.find(|(known, _)| *known == name).unwrap();
    outcome(world.clone(), policy)
}

#[test]
fn transient_failures_of_a_quarter_are_recovered() {
    for share in [0.05, 0.15, 0.25] {
        let seen = under(GOVERNOR, &worlds::transient(share));
        assert!(seen.success >= 0.99, "{share}: {}", seen.success);
    }
    let bucket = under("A6 bucket", &worlds::transient(0.25));
    assert!(bucket.success < 0.8, "A6: {}", bucket.success);
}

#[test]
fn failures_of_half_and_more_are_not_amplified() {
    for (share, most) in [(0.5, 1.05), (0.75, 1.05), (1.0, 1.003)] {
        let seen = under(GOVERNOR, &worlds::transient(share));
        let amplification = seen.amplification;
        assert!(amplification <= most, "{share}: {amplification}");
    }
}

#[test]
fn four_times_the_capacity_arrives_as_twice() {
    let seen = under(BOTH, &worlds::four_times());
    // Per second of the minute that is counted.
    let arrive = seen.attempts as f64 / 60.0 / CAPACITY;
    let served = seen.success * seen.calls as f64 / 60.0 / CAPACITY;
    assert!(arrive <= 2.1, "{arrive}");
    assert!(served >= 0.95, "{served}");
    assert!(seen.ended["admission"] > seen.calls / 3);
}

fn recovers(trigger: Trigger, load: f64) {
    let world = worlds::storm(trigger, load);
    let (without, with) = (under("no retries", &world), under(GOVERNOR, &world));
    let amplification = with.amplification;
    assert!(amplification <= 1.02, "{trigger:?} {load}: {amplification}");
    let (without, with) = (without.recovered_s.unwrap(), with.recovered_s.unwrap());
    assert!(
        with <= without + 1.0,
        "{trigger:?} {load}: {with} {without}"
    );
}

#[test]
fn a_storm_ends_as_soon_as_without_retries() {
    recovers(Trigger::Pulse, 0.8);
}

#[test]
fn every_trigger_ends_as_soon_as_without_retries() {
    for trigger in TRIGGERS {
        for load in [0.5, 0.9] {
            recovers(trigger, load);
        }
    }
}

#[test]
fn without_a_throttle_the_storm_never_ends() {
    let world = worlds::storm(Trigger::Pulse, 0.8);
    for name in ["no throttle", "tower TpsBudget"] {
        let mut short = world.clone();
        short["duration_s"] = json!(90);
        let seen = under(name, &short);
        assert_eq!(seen.recovered_s, None, "{name}");
    }
}

#[test]
fn a_slow_client_has_its_retries_after_an_outage() {
    let seen = under(GOVERNOR, &worlds::trickle());
    assert!(seen.success >= 0.99, "{}", seen.success);
    let bucket = under("A6 bucket", &worlds::trickle());
    assert!(bucket.success < 0.95, "A6: {}", bucket.success);
}

#[test]
fn a_refused_call_of_a_tier_is_answered_as_a_failure() {
    let tier = |faults: Value| json!({"backends": [{"servers": 100, "latency": {"fixed_ms": 1}, "faults": faults}]});
    let world = json!({
        "duration_s": 20, "arrivals": [{"per_s": 500}],
        "tiers": [tier(json!([])), tier(json!([{"kind": "error"}]))],
    });
    let tested = json!({"http_policy": {}, "with": {"admission": true}});
    let seen = outcome(world, tested);
    let (outer, inner) = (seen.tiers[0].attempts, seen.tiers[1].attempts);
    assert_eq!(seen.success, 0.0);
    assert!(outer < 3000 && inner <= outer, "{outer} {inner}");
}
