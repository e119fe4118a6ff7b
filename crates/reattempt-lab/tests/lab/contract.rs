//! The documents: the same bytes, faults with their paths, the gallery.

use std::collections::BTreeSet;

use reattempt_lab::{Limits, Scenario, gallery};
use serde_json::{Value, json};

use super::{http, one_call, run, world};

fn faults(scenario: &Value) -> Vec<String> {
    match Scenario::parse(&scenario.to_string()) {
        Ok(_) => Vec::new(),
        Err(refused) => refused.faults().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_same_document_and_seed_give_the_same_bytes() {
    let document = include_str!("storm.json").replace("\"duration_s\":100", "\"duration_s\":4");
    let bytes = |seed| {
        let scenario = Scenario::parse(&document).unwrap().with_seed(seed);
        scenario.run(&Limits::default()).unwrap().to_json()
    };
    assert_eq!(bytes(3), bytes(3));
    assert_ne!(bytes(3), bytes(4));
}

/// Pinned, so that a platform on which it differs is seen.
#[test]
fn chance_is_the_same_on_every_platform() {
    let policy = http(json!({"retry": {"backoff": {"multiplier": 1.7}}}));
    let latency = json!({"lognormal": {"median_ms": 20, "sigma": 1}});
    let faults = json!([{"kind": "error", "share": 0.3}]);
    let mut scenario = world(20.0, 50.0, 3, latency, faults);
    scenario["policies"] = json!({ "a": policy });
    let report = run(&scenario);
    let seen = report.policy("a").unwrap();
    let sum = (seen.calls, seen.attempts, seen.latency_ms.mean);
    assert_eq!(sum, (990, 1378, Some(61.961188690871374)));
}

#[test]
fn the_result_has_the_members_of_the_contract() {
    let document = r#"{"duration_s": 5, "arrivals": [{"per_s": 20}],
        "backends": [{"servers": 1, "latency": {"fixed_ms": 5}}],
        "policies": {"z": {"kv": "best_effort"}, "a": {"service_config": {}}}}"#;
    let scenario = Scenario::parse(document).unwrap();
    let text = scenario.run(&Limits::default()).unwrap().to_json();
    assert!(
        text.find("\"z\"") < text.find("\"a\""),
        "in the order of the document"
    );
    let result: Value = serde_json::from_str(&text).unwrap();
    // A feature of serde_json that others of the build may enable keeps the order of the text.
    let names: BTreeSet<_> = result["policies"]["a"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let expected = "amplification attempts by_second calls ended findings held_back kinds \
                    latency_ms recovered_s success";
    assert!(names.into_iter().eq(expected.split(' ')), "{result}");
    let row = &result["policies"]["a"]["by_second"][0];
    assert_eq!(row["second"], 0);
    assert!(row["p99_ms"].is_number() && row["attempts"] == row["calls"]);
    assert_eq!(result["policies"]["a"]["latency_ms"]["p50"], 5.0);
}

#[test]
fn every_fault_is_reported_with_its_path() {
    let scenario = json!({
        "duration_s": 0, "warmup_s": "x", "clients": 0, "arrivals": [{"per_s": 1}, {"from_s": 0, "per_s": -1}],
        "call": [{"method": "G T", "path": "x", "timeout_ms": -1}, {"method": "get"},
            {"method": "/a.B/C", "path": "/"}], "rtt_ms": true, "pick": "best",
        "cancelled_work": 3, "overload": {"code": 1.5, "what": 1}, "colour": "red",
        "backends": [{"servers": -1, "queue": "x", "latency": {"fixed_ms": 1, "exponential_ms": 1},
            "faults": [{"kind": "slow"}, {"kind": "fire"}, {"from_s": 2, "to_s": 1, "kind": "refuse", "share": 1}]}],
        "policies": {"a b": {"kv": "slow"}, "b": {}, "c": {"http_policy": {"default": {"timeout": "soon"}}},
            "d": {"kv": "fail_fast", "with": {"health": {"maxEjectionPercent": 101}, "governor": {"burst": 0}, "admission": {"window": "1h"}}}},
    });
    let faults = faults(&scenario);
    for path in [
        "$.duration_s:",
        "$.warmup_s:",
        "$.clients:",
        "$.arrivals[1].per_s:",
        "$.call[0].method:",
        "$.call[0].path:",
        "$.call[0].timeout_ms:",
        "$.call[1].method:",
        "$.call[2]: has a gRPC method both in method and in path",
        "$.rtt_ms:",
        "$.pick:",
        "$.cancelled_work:",
        "$.overload.code:",
        "$.overload.what:",
        "$.colour:",
        "$.backends[0].servers:",
        "$.backends[0].queue:",
        "$.backends[0].latency:",
        "$.backends[0].faults[0].factor:",
        "$.backends[0].faults[1].kind:",
        "$.backends[0].faults[2].to_s:",
        "$.backends[0].faults[2].share:",
        "$.policies[\"a b\"].kv:",
        "$.policies.b:",
        "$.policies.c.http_policy.default.timeout:",
        "$.policies.d.with.health.maxEjectionPercent:",
        "$.policies.d.with.governor.burst:",
        "$.policies.d.with.admission.window:",
    ] {
        assert!(
            faults.iter().any(|fault| fault.starts_with(path)),
            "{path} in {faults:#?}"
        );
    }
}

#[test]
fn a_fault_of_a_policy_is_the_only_one() {
    let faults = faults(&one_call(http(json!({"timeout": "soon"}))));
    let path = "$.policies.p.http_policy.default.timeout: ";
    assert!(
        faults.len() == 1 && faults[0].starts_with(path),
        "{faults:?}"
    );
}

#[test]
fn a_seed_is_any_number() {
    let faults = |seed: &str| {
        let text = one_call(http(json!({}))).to_string();
        let text = text.replace("\"seed\":7", &format!("\"seed\":{seed}"));
        Scenario::parse(&text).map_or_else(|faults| faults.faults().to_vec(), |_| Vec::new())
    };
    for seed in [
        "0",
        "7.0",
        "1e19",
        "18446744073709551614",
        "18446744073709551615",
        "18446744073709551616",
        "1e30",
        "-1",
        "0.5",
    ] {
        assert_eq!(faults(seed), [], "{seed}");
    }
    for seed in ["1e400", "\"1\""] {
        let faults = faults(seed);
        assert_eq!(faults.len(), 1, "{seed}");
        let expected = "$.seed: must be a number, got";
        assert!(faults[0].to_string().starts_with(expected), "{faults:?}");
    }
}

#[test]
fn codes_are_those_of_the_policies_protocol() {
    let with = |code: Value, policy: Value| {
        let mut scenario = one_call(policy);
        scenario["backends"][0]["faults"] = json!([{"kind": "error", "code": code}]);
        faults(&scenario)
    };
    let grpc = || json!({"service_config": {}});
    assert_eq!(with(json!("unavailable"), grpc()), [""; 0]);
    assert_eq!(with(json!(14), grpc()), [""; 0]);
    assert_eq!(with(json!(503), http(json!({}))), [""; 0]);
    for (code, policy) in [
        (json!(503), grpc()),
        (json!("OK"), grpc()),
        (json!("UNAVAILABLE"), http(json!({}))),
    ] {
        let faults = with(code, policy);
        assert!(
            faults[0].starts_with("$.backends[0].faults[0].code: must be"),
            "{faults:?}"
        );
    }
}

#[test]
fn a_run_without_an_end_is_ended() {
    let error = json!([{"kind": "error"}]);
    let mut endless = world(5.0, 10.0, 1, json!({"fixed_ms": 1}), error);
    endless["policies"] = json!({"forever": {"kv": "best_effort"}});
    let scenario = Scenario::parse(&endless.to_string()).unwrap();
    let refused = scenario.run(&Limits { max_events: 10_000 }).unwrap_err();
    let fault = refused.faults()[0].to_string();
    assert!(
        fault.starts_with("$.policies.forever: the run was ended after 10000 events"),
        "{fault}"
    );
}

#[test]
fn every_scenario_of_the_gallery_runs() {
    assert_eq!(gallery::GALLERY.len(), 10);
    for example in gallery::GALLERY {
        let scenario =
            Scenario::parse(example.document).unwrap_or_else(|faults| panic!("{faults}"));
        let report = scenario.run(&Limits::default()).unwrap();
        assert!(
            report.policies.iter().all(|(_, seen)| seen.calls > 1000),
            "{}",
            example.name
        );
        assert!(gallery::find(example.name).is_some());
    }
}

/// Members by name: a build with serde_json's `preserve_order` has them in another order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: std::collections::BTreeMap<_, _> = members.into_iter().collect();
            let members = members.into_iter();
            Value::Object(members.map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Every distribution, fault and form: a platform whose numbers differ has another sum.
#[test]
fn a_seed_gives_the_same_bytes_on_every_platform() {
    let latency = json!({"mix": [
        {"weight": 3, "exponential_ms": 10}, {"weight": 2, "lognormal": {"median_ms": 8, "sigma": 0.7}},
        {"weight": 1, "pareto": {"min_ms": 5, "alpha": 1.5}}, {"weight": 1, "samples_ms": [1, 2, 40.5]},
    ]});
    let backend =
        |faults: Value| json!({"servers": 6, "queue": 20, "latency": latency, "faults": faults});
    let document = json!({
        "seed": 18_446_744_073_709_551_557_u64, "duration_s": 30, "warmup_s": 1.5, "clients": 3, "rtt_ms": 1.3,
        "arrivals": [{"per_s": 200}, {"from_s": 10, "per_s": 500.5}, {"from_s": 12, "per_s": 150}],
        "call": [{"weight": 2, "timeout_ms": 700}, {"method": "POST", "path": "/orders", "weight": 1}],
        "backends": [
            backend(json!([{"kind": "error", "share": 0.1, "from_s": 3}, {"kind": "slow", "factor": 2.5, "to_s": 9}])),
            backend(json!([{"kind": "limit", "per_s": 80.5, "burst": 4, "pushback_ms": 30}, {"kind": "silent", "share": 0.01}])),
            backend(json!([{"kind": "refuse", "from_s": 20, "to_s": 22}, {"kind": "capacity", "servers": 2, "from_s": 15}])),
        ],
        "pick": "least_loaded", "cancelled_work": "stops",
        "policies": {
            "retries": {"http_policy": {"default": {"retry": {"maxAttempts": 4, "backoff": {"jitter": "decorrelated"}},
                "throttle": "t", "attemptTimeout": "0.4s"}, "throttles": {"t": {"retryRatio": 0.3, "window": "5s"}}}},
            "hedges": {"service_config": {"methodConfig": [{"name": [{}], "timeout": "1s",
                "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.03s"}}],
                "retryThrottling": {"maxTokens": 20, "tokenRatio": 0.25}}},
            "key-value": {"kv": "best_effort"},
        },
    });
    let mut result: Value = serde_json::from_str(&run(&document).to_json()).unwrap();
    // Findings are words.
    for (_, outcome) in result["policies"].as_object_mut().unwrap() {
        outcome["findings"].take();
    }
    let text = sorted(result).to_string();
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(
        format!("{sum:016x}"),
        "b00df41a57e33b22",
        "{} bytes",
        text.len()
    );
}
