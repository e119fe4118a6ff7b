//! The simulated worlds.

use serde_json::{Value, json};

/// A world: its name, and its scenario without policies for a seed.
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) scenario: fn(u64) -> Value,
}

/// Calls a second.
pub(crate) const RATE: f64 = 1000.0;
/// 20,000 calls pass before anything is counted.
const LEARNED_S: f64 = 20.0;
const COUNTED_S: f64 = 40.0;

fn world(per_s: f64, seed: u64, warmup: f64, counted: f64, backends: Value) -> Value {
    json!({
        "seed": seed,
        "duration_s": warmup + counted,
        "warmup_s": warmup,
        "arrivals": [{"from_s": 0, "per_s": per_s}],
        "call": {"method": "GET", "path": "/"},
        "backends": backends,
    })
}

/// As many workers as there are attempts: no attempt waits for another.
fn independent(seed: u64, latency: Value) -> Value {
    let backends = json!([{"servers": 1_000_000, "latency": latency}]);
    world(RATE, seed, LEARNED_S, COUNTED_S, backends)
}

fn lognormal(median: f64, sigma: f64) -> Value {
    json!({"lognormal": {"median_ms": median, "sigma": sigma}})
}

fn bimodal() -> Value {
    json!({"mix": [{"weight": 0.95, "lognormal": {"median_ms": 10, "sigma": 0.3}},
                   {"weight": 0.05, "lognormal": {"median_ms": 200, "sigma": 0.3}}]})
}

/// Everything takes this many times as long from 20 s on; 5,000 calls later it is counted.
fn drifting(seed: u64, factor: f64, latency: Value) -> Value {
    let slow = json!([{"kind": "slow", "from_s": 20, "to_s": 1000, "factor": factor}]);
    let backends = json!([{"servers": 1_000_000, "latency": latency, "faults": slow}]);
    world(RATE, seed, LEARNED_S + 5.0, COUNTED_S, backends)
}

/// Every second all service times are three times as long for 100 ms.
fn correlated(seed: u64) -> Value {
    let slow = |from: f64| json!({"kind": "slow", "from_s": from, "to_s": from + 0.1, "factor": 3});
    let phases: Vec<_> = (0..60)
        .map(|second| slow(f64::from(second) + 0.3))
        .collect();
    let backends =
        json!([{"servers": 1_000_000, "latency": {"exponential_ms": 10}, "faults": phases}]);
    world(RATE, seed, LEARNED_S, COUNTED_S, backends)
}

/// Independent servers.
pub(crate) const INDEPENDENT: &[World] = &[
    World {
        name: "exponential",
        scenario: |seed| independent(seed, json!({"exponential_ms": 10})),
    },
    World {
        name: "Pareto 1.5",
        scenario: |seed| independent(seed, json!({"pareto": {"min_ms": 5, "alpha": 1.5}})),
    },
    World {
        name: "Pareto 2.5",
        scenario: |seed| independent(seed, json!({"pareto": {"min_ms": 5, "alpha": 2.5}})),
    },
    World {
        name: "lognormal 0.5",
        scenario: |seed| independent(seed, lognormal(10.0, 0.5)),
    },
    World {
        name: "lognormal 1",
        scenario: |seed| independent(seed, lognormal(10.0, 1.0)),
    },
    World {
        name: "bimodal",
        scenario: |seed| independent(seed, bimodal()),
    },
    World {
        name: "two atoms",
        scenario: |seed| {
            let atoms = json!({"mix": [{"weight": 0.95, "fixed_ms": 10}, {"weight": 0.05, "fixed_ms": 100}]});
            independent(seed, atoms)
        },
    },
    World {
        name: "young",
        scenario: young,
    },
    World {
        name: "correlated",
        scenario: correlated,
    },
    World {
        name: "drift x3",
        scenario: |seed| drifting(seed, 3.0, lognormal(10.0, 1.0)),
    },
    World {
        name: "drift /3",
        scenario: |seed| drifting(seed, 1.0 / 3.0, lognormal(10.0, 1.0)),
    },
    World {
        name: "drift exp. x3",
        scenario: |seed| drifting(seed, 3.0, json!({"exponential_ms": 10})),
    },
    World {
        name: "drift Pareto x3",
        scenario: |seed| drifting(seed, 3.0, json!({"pareto": {"min_ms": 5, "alpha": 1.5}})),
    },
];

/// The demo: 5 % of the answers are fifteen times as slow, 2,000 calls pass before anything is
/// counted, and 1,500 are counted.
fn young(seed: u64) -> Value {
    let usual = json!({"weight": 0.95, "samples_ms": [2, 3, 4, 5, 6, 7, 8, 9]});
    let latency = json!({"mix": [usual, {"weight": 0.05, "fixed_ms": 150}]});
    let backends = json!([{"servers": 1_000_000, "latency": latency}]);
    world(RATE, seed, 2.0, 1.5, backends)
}

/// Four times as slow from 20 s on, and counted from then on.
pub(crate) fn slowdown(seed: u64, per_s: f64) -> Value {
    let slow = json!([{"kind": "slow", "from_s": 20, "to_s": 1000, "factor": 4}]);
    let latency = json!({"exponential_ms": 10});
    let backends = json!([{"servers": 1_000_000, "latency": latency, "faults": slow}]);
    world(per_s, seed, 20.0, 20.0, backends)
}

/// `servers` queues of `workers` workers at this load.
pub(crate) fn queues(
    seed: u64,
    servers: u32,
    workers: u32,
    load: f64,
    latency: &Value,
    mean: f64,
) -> Value {
    let all = f64::from(servers * workers);
    let rate = all * load / (mean / 1000.0);
    let seconds = (60_000.0 / rate).max(20.0);
    let backend = json!({"servers": workers, "latency": latency});
    let backends: Vec<_> = (0..servers).map(|_| backend.clone()).collect();
    json!({
        "seed": seed,
        "duration_s": seconds * 4.0 / 3.0,
        "warmup_s": seconds / 3.0,
        "arrivals": [{"from_s": 0, "per_s": rate}],
        "call": {"method": "GET", "path": "/"},
        "backends": backends,
    })
}
