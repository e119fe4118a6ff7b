//! Waiting times of queueing theory.

use serde_json::json;

use super::{near, once, outcome, world};

/// The mean waiting time of M/M/c in milliseconds (Erlang C).
fn waiting(per_s: f64, mean_ms: f64, servers: u32) -> f64 {
    let load = per_s * mean_ms / 1000.0;
    let c = f64::from(servers);
    // Erlang B by its recursion, then C.
    let blocked = (1..=servers).fold(1.0, |b, n| load * b / (f64::from(n) + load * b));
    let waits = blocked / (1.0 - load / c * (1.0 - blocked));
    waits / (c / mean_ms - per_s / 1000.0)
}

#[test]
fn waiting_times_of_m_m_1_are_within_a_hundredth() {
    near(waiting(500.0, 1.0, 1), 1.0, 1e-12, "theory");
    let calm = world(6000.0, 500.0, 1, json!({"exponential_ms": 1}), json!([]));
    let seen = outcome(calm, once());
    near(seen.waited_ms, 1.0, 0.01, "M/M/1, half loaded");
    let took = seen.latency_ms;
    near(took.mean.unwrap(), 2.0, 0.01, "time in the system");
    // Exponential with the mean 1 / (mu - lambda).
    near(
        took.p99.unwrap(),
        2.0 * 100_f64.ln(),
        0.02,
        "its 99th percentile",
    );
}

#[test]
fn waiting_times_of_m_m_c_are_within_a_hundredth() {
    let busy = world(2500.0, 1400.0, 4, json!({"exponential_ms": 2}), json!([]));
    let seen = outcome(busy, once());
    near(
        seen.waited_ms,
        waiting(1400.0, 2.0, 4),
        0.01,
        "M/M/4, 70 % loaded",
    );
    assert_eq!(seen.success, 1.0);
}

#[test]
fn the_arrivals_are_poisson_with_the_rates_of_the_scenario() {
    let mut world = world(300.0, 200.0, 1000, json!({"fixed_ms": 1}), json!([]));
    world["arrivals"] = json!([{"from_s": 0, "per_s": 200}, {"from_s": 100, "per_s": 0}, {"from_s": 200, "per_s": 800}]);
    let rows = outcome(world, once()).by_second;
    assert_eq!(rows.len(), 300);
    let calls = |from: usize| rows[from..from + 100].iter().map(|row| row.calls as f64);
    near(calls(0).sum::<f64>(), 20_000.0, 0.02, "the first rate");
    assert_eq!(calls(100).sum::<f64>(), 0.0);
    near(calls(200).sum::<f64>(), 80_000.0, 0.01, "the last rate");
    let mean = calls(200).sum::<f64>() / 100.0;
    let variance = calls(200).map(|n| (n - mean).powi(2)).sum::<f64>() / 99.0;
    assert!(
        (0.6..1.6).contains(&(variance / mean)),
        "a Poisson count: {variance} and {mean}"
    );
}

#[test]
fn distributions_have_their_quantiles() {
    let quantile = |latency| {
        let times = outcome(world(300.0, 1000.0, 100_000, latency, json!([])), once()).latency_ms;
        [times.p50.unwrap(), times.p99.unwrap()]
    };
    let [median, tail] = quantile(json!({"lognormal": {"median_ms": 10, "sigma": 0.5}}));
    near(median, 10.0, 0.01, "log-normal");
    near(
        tail,
        10.0 * (0.5_f64 * 2.326_348).exp(),
        0.02,
        "log-normal tail",
    );
    let [median, tail] = quantile(json!({"pareto": {"min_ms": 5, "alpha": 2}}));
    near(median, 5.0 * 2_f64.sqrt(), 0.01, "Pareto");
    near(tail, 50.0, 0.03, "Pareto tail");
    let [median, tail] = quantile(json!({"samples_ms": [3, 3, 3, 900]}));
    near(median, 3.0, 0.001, "samples");
    near(tail, 900.0, 0.001, "samples");
    let mix = json!({"mix": [{"weight": 9, "fixed_ms": 1}, {"weight": 1, "fixed_ms": 70}]});
    let [median, tail] = quantile(mix);
    near(median, 1.0, 0.001, "mix");
    near(tail, 70.0, 0.001, "mix");
}
