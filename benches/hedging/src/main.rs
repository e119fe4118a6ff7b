//! What hedging costs and gains in virtual time: no hedge, tower's rule, the best single delay of
//! the same spend, and `ExtraLoad`, on the same arrivals and service times.
//!
//! `cargo run --release -p reattempt-hedging-tables [independent|slowdown|queues] [NAME]
//! [SEED] [SEEDS]`: all worlds, or those whose name has NAME in it; five seeds, or SEEDS, from SEED
//! on.

mod tower;
mod worlds;

use std::sync::Arc;

use reattempt::policy::ExtraLoad;
use reattempt::{HedgeDelay, HedgePolicy};
use reattempt_lab::{Limits, Outcome, Scenario};
use serde_json::{Value, json};

use tower::Tower;

/// The first of them is the third argument, and their number the fourth.
fn seeds() -> impl Iterator<Item = u64> {
    let argument = |at, otherwise| {
        let given = std::env::args().nth(at);
        given.map_or(otherwise, |number| number.parse().expect("a number"))
    };
    let (first, seeds) = (argument(3, 1), argument(4, 5));
    first..first + seeds
}

fn run(
    mut world: Value,
    name: &str,
    policy: Value,
    with: impl FnOnce(Scenario) -> Scenario,
) -> Outcome {
    world["policies"] = json!({ "given": policy });
    let scenario = Scenario::parse(&world.to_string()).unwrap_or_else(|faults| panic!("{faults}"));
    let report = with(scenario)
        .run(&Limits::default())
        .unwrap_or_else(|faults| panic!("{faults}"));
    report.policy(name).cloned().expect("a policy of this name")
}

fn never(world: Value) -> Outcome {
    run(world, "given", json!({"http_policy": {}}), |scenario| {
        scenario
    })
}

fn fixed(world: Value, ms: f64) -> Outcome {
    let hedge = json!({"maxAttempts": 2, "delay": format!("{:.9}s", ms / 1000.0)});
    run(
        world,
        "given",
        json!({"http_policy": {"default": {"hedge": hedge}}}),
        |scenario| scenario,
    )
}

fn hedged<D: HedgeDelay + 'static>(
    world: Value,
    delay: impl Fn() -> D + Send + Sync + 'static,
) -> Outcome {
    let make = move || HedgePolicy::with_delay(2, Arc::new(delay()));
    run(world, "made", json!({"http_policy": {}}), |scenario| {
        scenario.hedged("made", make)
    })
}

fn learned(world: Value, percent: f64) -> Outcome {
    hedged(world, move || {
        ExtraLoad::percent(percent).expect("a valid share")
    })
}

fn extra(outcome: &Outcome) -> f64 {
    outcome.amplification - 1.0
}

/// The shortest single delay that spends no more.
fn best_single(world: &Value, spend: f64) -> Outcome {
    let (mut low, mut high) = (0.01_f64, 20_000.0);
    for _ in 0..14 {
        let middle = (low * high).sqrt();
        if extra(&fixed(world.clone(), middle)) > spend {
            low = middle;
        } else {
            high = middle;
        }
    }
    fixed(world.clone(), high)
}

#[derive(Default)]
struct Mean {
    extra: f64,
    p99: f64,
    p999: f64,
}

impl Mean {
    fn of(outcomes: &[Outcome]) -> Self {
        let count = outcomes.len() as f64;
        let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / count;
        Self {
            extra: mean(&extra),
            p99: mean(&|outcome| outcome.latency_ms.p99.unwrap_or(f64::NAN)),
            p999: mean(&|outcome| outcome.latency_ms.p999.unwrap_or(f64::NAN)),
        }
    }
}

fn independent() {
    println!(
        "{:<16} {:>6} | {:>8} {:>8} {:>8} | {:>7} {:>8} {:>8} | {:>8} {:>8} | {:>7} {:>8} {:>8} | {:>6} {:>6} {:>6}",
        "world",
        "budget",
        "none p99",
        "p99.9",
        "",
        "tower %",
        "p99",
        "p99.9",
        "best p99",
        "p99.9",
        "ours %",
        "p99",
        "p99.9",
        "spend",
        "p99",
        "p99.9"
    );
    let only = std::env::args().nth(2);
    let chosen =
        |world: &&worlds::World| only.as_deref().is_none_or(|only| world.name.contains(only));
    for world in worlds::INDEPENDENT.iter().filter(chosen) {
        for percent in [1.0, 2.0, 5.0, 10.0] {
            let each = |of: &dyn Fn(Value) -> Outcome| {
                let outcomes: Vec<_> = seeds().map(|seed| of((world.scenario)(seed))).collect();
                Mean::of(&outcomes)
            };
            let none = each(&never);
            let tower = each(&|world| hedged(world, move || Tower::new(percent / 100.0)));
            let ours = each(&|world| learned(world, percent));
            let best = each(&|world| best_single(&world, extra(&learned(world.clone(), percent))));
            println!(
                "{:<16} {:>6} | {:>8.1} {:>8.1} {:>8} | {:>7.2} {:>8.1} {:>8.1} | {:>8.1} {:>8.1} | {:>7.2} {:>8.1} {:>8.1} | {:>6.3} {:>6.3} {:>6.3}",
                world.name,
                percent,
                none.p99,
                none.p999,
                "",
                100.0 * tower.extra,
                tower.p99,
                tower.p999,
                best.p99,
                best.p999,
                100.0 * ours.extra,
                ours.p99,
                ours.p999,
                100.0 * ours.extra / percent,
                ours.p99 / best.p99,
                ours.p999 / best.p999
            );
        }
    }
}

fn worst_second(outcome: &Outcome) -> f64 {
    let seconds = outcome.by_second.iter().filter(|second| second.calls > 100);
    seconds
        .map(|second| second.attempts as f64 / second.calls as f64 - 1.0)
        .fold(0.0, f64::max)
}

fn slowdown() {
    println!("a fourfold slowdown: extra attempts of 100 calls in the worst second");
    for per_s in [4000.0, 1000.0] {
        for percent in [1.0, 2.0, 5.0, 10.0] {
            let worst = |of: &dyn Fn(Value) -> Outcome| {
                seeds()
                    .map(|seed| 100.0 * worst_second(&of(worlds::slowdown(seed, per_s))))
                    .fold(0.0, f64::max)
            };
            println!(
                "{per_s} calls/s, budget {percent:>4}: tower {:>6.2}, ours {:>6.2}",
                worst(&|world| hedged(world, move || Tower::new(percent / 100.0))),
                worst(&|world| learned(world, percent))
            );
        }
    }
}

fn queues() {
    println!(
        "{:<24} {:>5} {:>6} | {:>8} | {:>7} {:>6} | {:>7} {:>6}",
        "queues", "load", "budget", "none p99", "tower %", "p99", "ours %", "p99"
    );
    let latencies = [
        ("exp", json!({"exponential_ms": 10}), 10.0),
        (
            "bimodal",
            json!({"mix": [{"weight": 0.95, "exponential_ms": 5}, {"weight": 0.05, "exponential_ms": 105}]}),
            10.0,
        ),
    ];
    let only = std::env::args().nth(2);
    for (name, latency, mean) in latencies {
        for (servers, workers) in [(1, 1), (1, 4), (1, 16), (4, 4), (10, 1)] {
            let name = format!("{name} {servers} of {workers}");
            if only.as_deref().is_some_and(|only| !name.contains(only)) {
                continue;
            }
            for load in [0.1, 0.3, 0.5, 0.7, 0.9, 0.95] {
                for percent in [2.0, 10.0] {
                    let each = |of: &dyn Fn(Value) -> Outcome| {
                        let of =
                            |seed| of(worlds::queues(seed, servers, workers, load, &latency, mean));
                        Mean::of(&seeds().map(of).collect::<Vec<_>>())
                    };
                    let none = each(&never);
                    let tower = each(&|world| hedged(world, move || Tower::new(percent / 100.0)));
                    let ours = each(&|world| learned(world, percent));
                    println!(
                        "{:<24} {:>5} {:>6} | {:>8.1} | {:>7.2} {:>6.3} | {:>7.2} {:>6.3}",
                        name,
                        load,
                        percent,
                        none.p99,
                        100.0 * tower.extra,
                        tower.p99 / none.p99,
                        100.0 * ours.extra,
                        ours.p99 / none.p99
                    );
                }
            }
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("independent") => independent(),
        Some("slowdown") => slowdown(),
        Some("queues") => queues(),
        _ => {
            independent();
            slowdown();
            queues();
        }
    }
}
