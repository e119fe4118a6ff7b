//! Hedges whose delay is learned: what they cost, what they gain, and where they stop.

use reattempt_lab::Outcome;
use serde_json::{Value, json};

use super::{http, once, outcome};

const SEEDS: u64 = 5;

fn learned(percent: f64) -> Value {
    http(json!({"hedge": {"extraLoadPercent": percent}}))
}

fn fixed(ms: f64) -> Value {
    http(json!({"hedge": {"delay": format!("{:.9}s", ms / 1000.0)}}))
}

/// Servers that do not wait for each other, at 1,000 calls a second; counted after 20,000 calls.
fn free(seed: u64, latency: &Value, faults: &Value) -> Value {
    json!({
        "seed": seed,
        "duration_s": 60,
        "warmup_s": 25,
        "arrivals": [{"from_s": 0, "per_s": 1000}],
        "backends": [{"servers": 1_000_000, "latency": latency, "faults": faults}],
    })
}

fn extra(outcome: &Outcome) -> f64 {
    outcome.amplification - 1.0
}

fn mean(of: impl Fn(u64) -> f64) -> f64 {
    (1..=SEEDS).map(of).sum::<f64>() / SEEDS as f64
}

/// The means of five seeds against the single delay that costs the same, found by halving.
fn check(percent: f64, latency: &Value, faults: &Value) {
    let world = |seed| free(seed, latency, faults);
    let ours: Vec<_> = (1..=SEEDS)
        .map(|seed| outcome(world(seed), learned(percent)))
        .collect();
    let spent = mean(|seed| extra(&ours[seed as usize - 1]));
    let name = format!("{percent} % over {latency}");
    let off = (100.0 * spent / percent - 1.0).abs();
    assert!(off <= 0.05, "{name}: {spent}");
    let (mut low, mut high) = (10.0_f64, 1000.0);
    for _ in 0..9 {
        let middle = (low * high).sqrt();
        if extra(&outcome(world(1), fixed(middle))) > extra(&ours[0]) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let best: Vec<_> = (1..=SEEDS)
        .map(|seed| outcome(world(seed), fixed(high)))
        .collect();
    let tail = |all: &[Outcome], p999: bool| {
        mean(|seed| {
            let latency = &all[seed as usize - 1].latency_ms;
            if p999 { latency.p999 } else { latency.p99 }.unwrap()
        })
    };
    for p999 in [false, true] {
        let (own, single) = (tail(&ours, p999), tail(&best, p999));
        assert!(
            own <= 1.03 * single,
            "{name}: {own} ms, {single} ms at best"
        );
    }
}

#[test]
fn the_share_is_spent_as_well_as_by_the_best_delay() {
    check(2.0, &json!({"exponential_ms": 10}), &json!([]));
    for percent in [5.0, 10.0] {
        check(
            percent,
            &json!({"pareto": {"min_ms": 5, "alpha": 1.5}}),
            &json!([]),
        );
    }
}

#[test]
fn a_small_share_is_spent_as_well() {
    check(
        1.0,
        &json!({"lognormal": {"median_ms": 10, "sigma": 1}}),
        &json!([]),
    );
}

/// Every second all service times are three times as long for 100 ms.
#[test]
fn servers_that_are_slow_together_cost_the_share() {
    let slow = |second: u32| {
        let from = f64::from(second) + 0.3;
        json!({"kind": "slow", "from_s": from, "to_s": from + 0.1, "factor": 3})
    };
    let slow: Vec<_> = (0..60).map(slow).collect();
    check(5.0, &json!({"exponential_ms": 10}), &json!(slow));
}

/// 5 % of the attempts belong to a mode twenty times as slow.
#[test]
fn two_modes_cost_the_share_whatever_it_is() {
    let modes = json!({"mix": [{"weight": 0.95, "lognormal": {"median_ms": 10, "sigma": 0.3}},
                               {"weight": 0.05, "lognormal": {"median_ms": 200, "sigma": 0.3}}]});
    check(1.0, &modes, &json!([]));
    check(10.0, &modes, &json!([]));
}

/// 5 % of the attempts take 150 ms, and the share is just that or a little more: after 2,000 calls.
#[test]
fn slow_attempts_as_many_as_the_share_are_hedged() {
    let usual = json!({"weight": 0.95, "samples_ms": [2, 3, 4, 5, 6, 7, 8, 9]});
    let latency = json!({"mix": [usual, {"weight": 0.05, "fixed_ms": 150}]});
    let world = |seed| {
        let mut world = free(seed, &latency, &json!([]));
        world["warmup_s"] = json!(2);
        world["duration_s"] = json!(6);
        world
    };
    for percent in [5.0, 6.0] {
        let p99 = |seed| outcome(world(seed), learned(percent)).latency_ms.p99;
        let tail = mean(|seed| p99(seed).unwrap());
        assert!(tail < 30.0, "{percent} %: {tail} ms");
    }
}

#[test]
fn five_thousand_calls_after_a_drift_it_is_so_again() {
    let slower = json!([{"kind": "slow", "from_s": 20, "to_s": 100, "factor": 3}]);
    let lognormal = json!({"lognormal": {"median_ms": 10, "sigma": 1}});
    check(5.0, &lognormal, &slower);
}

#[test]
fn a_fourfold_slowdown_costs_little_more_in_any_second() {
    for percent in [2.0, 10.0] {
        let slower = json!([{"kind": "slow", "from_s": 20, "to_s": 100, "factor": 4}]);
        let mut world = free(3, &json!({"exponential_ms": 10}), &slower);
        world["arrivals"] = json!([{"from_s": 0, "per_s": 4000}]);
        world["warmup_s"] = json!(20);
        world["duration_s"] = json!(32);
        let seen = outcome(world, learned(percent));
        for second in seen.by_second.iter().filter(|second| second.calls > 1000) {
            let extra = 100.0 * (second.attempts as f64 / second.calls as f64 - 1.0);
            assert!(
                extra <= percent + 1.5,
                "{extra} % in second {}",
                second.second
            );
        }
    }
}

#[test]
fn where_attempts_wait_for_each_other_it_stops() {
    for (servers, workers, load, percent) in [
        (1, 1, 0.5, 10.0),
        (1, 4, 0.9, 10.0),
        (1, 16, 0.95, 10.0),
        (4, 4, 0.9, 10.0),
        (4, 1, 0.5, 50.0),
        (10, 1, 0.6, 50.0),
    ] {
        let rate = f64::from(servers * workers) * load * 100.0;
        let backend = json!({"servers": workers, "latency": {"exponential_ms": 10}});
        let backends: Vec<_> = (0..servers).map(|_| backend.clone()).collect();
        let world = json!({
            "seed": 1,
            "duration_s": 80_000.0 / rate,
            "warmup_s": 20_000.0 / rate,
            "arrivals": [{"from_s": 0, "per_s": rate}],
            "backends": backends,
        });
        let without = outcome(world.clone(), once()).latency_ms.p99.unwrap();
        let with = outcome(world, learned(percent));
        let tail = with.latency_ms.p99.unwrap() / without;
        let queues = format!("{servers} of {workers} at {load}");
        assert!(tail <= 1.02, "{queues}: {tail}");
        assert!(extra(&with) < 0.002, "{queues}: {}", extra(&with));
    }
}

/// Where hedges nearly pay, trying must not cost.
#[test]
fn a_busy_pool_is_no_slower_for_trying() {
    let world = |seed| {
        json!({
            "seed": seed,
            "duration_s": 55,
            "warmup_s": 14,
            "arrivals": [{"from_s": 0, "per_s": 1440}],
            "backends": [{"servers": 16, "latency": {"exponential_ms": 10}}],
        })
    };
    let p99 = |seed, policy| outcome(world(seed), policy).latency_ms.p99.unwrap();
    let (with, without) = (
        mean(|seed| p99(seed, learned(10.0))),
        mean(|seed| p99(seed, once())),
    );
    assert!(with <= 1.02 * without, "{with} ms, {without} ms without");
}

#[test]
fn queues_that_are_nearly_empty_are_hedged() {
    let world = json!({
        "seed": 1,
        "duration_s": 100,
        "warmup_s": 25,
        "arrivals": [{"from_s": 0, "per_s": 800}],
        "backends": [{"servers": 16, "latency": {"exponential_ms": 10}}],
    });
    let without = outcome(world.clone(), once()).latency_ms.p99.unwrap();
    let with = outcome(world, learned(5.0));
    assert!(with.latency_ms.p99.unwrap() < 0.9 * without);
    assert!((0.04..0.0525).contains(&extra(&with)), "{}", extra(&with));
}
