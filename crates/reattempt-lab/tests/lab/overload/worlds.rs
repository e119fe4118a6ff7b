//! Worlds in which retries help or harm, and the policies that are compared in them. The table of
//! `benches/tables` and the tests beside this file share them.

use serde_json::{Value, json};

/// The policies, by name: four attempts of at most 250 ms, but for the first.
pub(crate) fn policies() -> Vec<(&'static str, Value)> {
    let retry = json!({"maxAttempts": 4, "backoff": {"initial": "0.05s", "max": "1s"}});
    let of = |retry: &Value| json!({"retry": retry, "attemptTimeout": "0.25s"});
    let plain = json!({"http_policy": {"default": of(&retry)}});
    let throttled = |throttle: Value| {
        let mut route = of(&retry);
        route["throttle"] = json!("t");
        json!({"http_policy": {"default": route, "throttles": {"t": throttle}}})
    };
    let mut quota = retry.clone();
    quota["preset"] = json!("aws-standard-2.1");
    let with = |parts: Value| {
        let mut governed = plain.clone();
        governed["with"] = parts;
        governed
    };
    vec![
        (
            "no retries",
            json!({"http_policy": {"default": {"attemptTimeout": "0.25s"}}}),
        ),
        ("no throttle", plain.clone()),
        (
            "tower TpsBudget",
            throttled(json!({"retryRatio": 0.2, "minPerSecond": 10})),
        ),
        (
            "AWS 2.1 quota",
            json!({"http_policy": {"default": of(&quota)}}),
        ),
        (
            "A6 bucket",
            throttled(json!({"maxTokens": 100, "tokenRatio": 0.1})),
        ),
        (GOVERNOR, with(json!({"governor": true}))),
        (BOTH, with(json!({"governor": true, "admission": true}))),
    ]
}

/// The governor alone.
pub(crate) const GOVERNOR: &str = "governor";
/// The governor, and admission above it.
pub(crate) const BOTH: &str = "with admission";

/// Requests per second that one server serves: 16 workers, 10 ms.
pub(crate) const CAPACITY: f64 = 1600.0;
const WORKERS: u32 = 16;

/// When trouble begins, and how many seconds it lasts.
const FROM: u32 = 20;
const LASTS: u32 = 10;

fn backend(queue: Option<u32>, faults: &Value) -> Value {
    json!({"servers": WORKERS, "queue": queue, "latency": {"exponential_ms": 10}, "faults": faults})
}

/// Each attempt fails with chance `share`, whatever the load: 20 clients, 50 calls a second each.
pub(crate) fn transient(share: f64) -> Value {
    let faults = json!([{"kind": "error", "share": share, "code": 500}]);
    json!({
        "seed": 1, "duration_s": 600, "clients": 20, "arrivals": [{"from_s": 0, "per_s": 1000}],
        "backends": [{"servers": 100_000, "latency": {"fixed_ms": 1}, "faults": faults}],
    })
}

/// A server is offered four times its capacity by 50 clients, and answers 503 when 100 wait.
pub(crate) fn four_times() -> Value {
    json!({
        "seed": 2, "duration_s": 70, "warmup_s": 10, "clients": 50,
        "arrivals": [{"from_s": 0, "per_s": 4.0 * CAPACITY}],
        "backends": [backend(Some(100), &json!([]))],
    })
}

/// What starts a storm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trigger {
    /// Twice the calls.
    Pulse,
    /// Half of the workers.
    Capacity,
    /// Three times the service time.
    Slow,
    /// Nothing answers.
    Outage,
}

/// All of them.
pub(crate) const TRIGGERS: [Trigger; 4] = [
    Trigger::Pulse,
    Trigger::Capacity,
    Trigger::Slow,
    Trigger::Outage,
];

/// 50 clients use this share of the capacity. Ten seconds of trouble leave a queue of requests that
/// their callers have left, which the server works off.
pub(crate) fn storm(trigger: Trigger, load: f64) -> Value {
    let (from, to) = (FROM, FROM + LASTS);
    let rate = load * CAPACITY;
    let mut arrivals = vec![json!({"from_s": 0, "per_s": rate})];
    let mut faults = Vec::new();
    match trigger {
        Trigger::Pulse => {
            arrivals.push(json!({"from_s": from, "per_s": 2.0 * rate}));
            arrivals.push(json!({"from_s": to, "per_s": rate}));
        }
        Trigger::Capacity => faults.push(json!({"kind": "capacity", "servers": WORKERS / 2})),
        Trigger::Slow => faults.push(json!({"kind": "slow", "factor": 3})),
        Trigger::Outage => faults.push(json!({"kind": "silent", "share": 1})),
    }
    for fault in &mut faults {
        fault["from_s"] = json!(from);
        fault["to_s"] = json!(to);
    }
    json!({
        "seed": 3, "duration_s": 240, "clients": 50, "arrivals": arrivals,
        "backends": [backend(None, &json!(faults))],
    })
}

/// One client, one call a second, and an outage of the first minute. Later one attempt in ten
/// fails.
pub(crate) fn trickle() -> Value {
    let faults = json!([
        {"kind": "error", "share": 1, "code": 503, "to_s": 60},
        {"kind": "error", "share": 0.1, "code": 500, "from_s": 60},
    ]);
    json!({
        "seed": 4, "duration_s": 660, "warmup_s": 60, "arrivals": [{"from_s": 0, "per_s": 1}],
        "backends": [{"servers": 1000, "latency": {"fixed_ms": 1}, "faults": faults}],
    })
}
