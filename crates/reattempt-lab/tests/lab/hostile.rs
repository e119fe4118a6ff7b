//! Hostile documents: never a panic, never without an end.

use proptest::prelude::*;
use reattempt_lab::{Limits, Scenario};
use serde_json::{Value, json};

/// Runs what can be read, briefly.
fn try_all(text: &str) {
    match Scenario::parse(text) {
        Ok(scenario) => match scenario.run(&Limits { max_events: 2000 }) {
            Ok(report) => assert!(!report.to_json().is_empty()),
            Err(faults) => assert!(faults.faults()[0].path.starts_with("$.policies")),
        },
        Err(faults) => assert!(!faults.faults().is_empty()),
    }
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(1e9)),
        Just(json!(1e308)),
        Just(json!(-1)),
        Just(json!(null)),
        Just(json!("x")),
        (0.0..1e7).prop_map(|number: f64| json!(number)),
        (0_u64..100).prop_map(|number| json!(number)),
    ]
}

fn fault() -> impl Strategy<Value = Value> {
    let kinds = [
        "error", "silent", "slow", "capacity", "refuse", "limit", "gone",
    ];
    let names = [
        "from_s",
        "to_s",
        "share",
        "factor",
        "servers",
        "per_s",
        "burst",
        "code",
        "pushback_ms",
    ];
    (
        0..kinds.len(),
        proptest::collection::vec((0..names.len(), number()), 0..6),
    )
        .prop_map(move |(kind, members)| {
            let mut fault = json!({"kind": kinds[kind]});
            for (name, value) in members {
                fault[names[name]] = value;
            }
            fault
        })
}

fn scenario() -> impl Strategy<Value = Value> {
    let members = [
        "seed",
        "duration_s",
        "warmup_s",
        "clients",
        "rtt_ms",
        "pick",
        "overload",
        "call",
        "arrivals",
        "cancelled_work",
        "tiers",
        "backends",
        "policies",
    ];
    let policies = json!({
        "a": {"kv": "best_effort"},
        "b": {"http_policy": {"default": {"hedge": {"delay": "0s", "maxAttempts": 8}, "attemptTimeout": "0.01s"}}},
        "c": {"service_config": {"methodConfig": [{"name": [{}], "timeout": "1s", "retryPolicy": {"maxAttempts": 5,
            "initialBackoff": "0.000000001s", "maxBackoff": "1s", "backoffMultiplier": 9e300, "retryableStatusCodes": [14]}}]}},
    });
    let latency = prop_oneof![
        number().prop_map(|n| json!({"fixed_ms": n})),
        number().prop_map(|n| json!({"exponential_ms": n})),
        (number(), number()).prop_map(|(a, b)| json!({"pareto": {"min_ms": a, "alpha": b}})),
        (number(), number()).prop_map(|(a, b)| json!({"lognormal": {"median_ms": a, "sigma": b}})),
        (number(), number()).prop_map(|(a, b)| json!({"mix": [{"weight": a, "fixed_ms": b}]})),
        proptest::collection::vec(number(), 0..3).prop_map(|s| json!({"samples_ms": s})),
    ];
    let backend = (number(), number(), latency, proptest::collection::vec(fault(), 0..4)).prop_map(
        |(servers, queue, latency, faults)| {
            json!({"servers": servers, "queue": queue, "latency": latency, "faults": faults})
        },
    );
    (
        proptest::collection::vec(backend, 0..3),
        0.1..100.0_f64,
        proptest::collection::vec((0..members.len(), number()), 0..2),
        any::<bool>(),
    )
        .prop_map(move |(backends, rate, broken, stops)| {
            let mut scenario = json!({
                "duration_s": 2, "arrivals": [{"per_s": rate}], "backends": backends, "policies": policies,
                "cancelled_work": if stops { "stops" } else { "finishes" }, "pick": "least_loaded",
            });
            for (name, value) in broken {
                scenario[members[name]] = value;
            }
            scenario
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_scenario_with_any_numbers_ends(scenario in scenario()) {
        try_all(&scenario.to_string());
    }

    #[test]
    fn a_gallery_scenario_with_any_byte_changed_ends(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0..10_usize) {
        let mut text = reattempt_lab::gallery::GALLERY[which].document.as_bytes().to_vec();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(text) = String::from_utf8(text) {
            try_all(&text);
        }
    }
}

#[test]
fn limits_are_kept() {
    let fault = |document: &str| {
        let refused = Scenario::parse(document).unwrap_err();
        refused.faults()[0].to_string()
    };
    let long = format!("{{\"seed\": {}1}}", " ".repeat(4 * 1024 * 1024));
    assert!(
        fault(&long).starts_with("$: is longer than") || fault(&long).contains("bytes"),
        "{}",
        fault(&long)
    );
    let backend = r#"{"servers": 1, "latency": {"fixed_ms": 1}}"#;
    let many = vec![backend; 10_001].join(",");
    let policies = r#""policies": {"a": {"kv": "fail_fast"}}"#;
    let document = format!(
        r#"{{"duration_s": 1, "arrivals": [{{"per_s": 1}}], "backends": [{many}], {policies}}}"#
    );
    assert_eq!(
        fault(&document),
        "$: has 10001 backends: at most 10000 can be simulated"
    );
    let fast = format!(
        r#"{{"duration_s": 1, "arrivals": [{{"per_s": 10000001}}], "backends": [{backend}], {policies}}}"#
    );
    assert_eq!(
        fault(&fast),
        "$.arrivals[0].per_s: must be calls a second from 0 to 1e7, got 10000001"
    );
    let long = format!(
        r#"{{"default": {{"timeout": "1s"}} {}}}"#,
        " ".repeat(100_000)
    );
    let copies = format!(
        r#"{{"duration_s": 1, "clients": 100000, "arrivals": [{{"per_s": 1}}], "backends": [{backend}],
        "policies": {{"a": {{"http_policy": {long}}}}}}}"#
    );
    assert!(
        fault(&copies).starts_with("$.clients: must be fewer"),
        "{}",
        fault(&copies)
    );
}

/// Each process knows the health of every backend that it calls.
#[test]
fn what_all_processes_know_of_health_is_bounded() {
    let backends = |count: usize| vec![json!({"servers": 1, "latency": {"fixed_ms": 1}}); count];
    let of_stack = json!({"kv": "fail_fast", "with": {"health": {}}});
    let of_text = json!({"http_policy": {"health": {}}});
    let read = |clients: u32, tiers: Value, policy: &Value| {
        let document = json!({
            "duration_s": 1, "clients": clients, "arrivals": [{"per_s": 1}], "tiers": tiers,
            "policies": {"a": {"kv": "fail_fast"}, "b": policy},
        });
        Scenario::parse(&document.to_string())
    };
    let fault = |clients, tiers, policy: &Value| {
        let refused = read(clients, tiers, policy).unwrap_err();
        assert_eq!(refused.faults().len(), 1);
        refused.faults()[0].to_string()
    };
    let what = "must be fewer: with health at most 1000000 pairs of a process and a backend that it calls can be simulated, got";
    let plain = json!({"kv": "fail_fast"});
    let one = json!([{"backends": backends(100)}]);
    for policy in [&of_stack, &of_text] {
        assert!(read(10_000, one.clone(), policy).is_ok());
        let refused = fault(10_001, one.clone(), policy);
        assert_eq!(refused, format!("$.clients: {what} 1000100"));
    }
    assert!(read(10_001, one, &plain).is_ok());
    // Servers are processes too. A tier has the policy under test, or its own.
    let two = |own: Option<&Value>| {
        let mut inner = json!({"backends": backends(1000)});
        if let Some(own) = own {
            inner["policy"] = own.clone();
        }
        json!([{"backends": backends(1001)}, inner])
    };
    let refused = fault(1, two(None), &of_text);
    let at = "$.tiers[1].backends";
    assert_eq!(refused, format!("{at}: {what} 1002001"));
    let refused = fault(1, two(Some(&of_stack)), &plain);
    assert_eq!(refused, format!("{at}: {what} 1001000"));
    assert!(read(1, two(Some(&plain)), &of_text).is_ok());
}

#[test]
fn a_result_has_a_bounded_number_of_rows() {
    let read = |policies: usize, duration: f64| {
        let policy = json!({"http_policy": {"default": {}}});
        let policies = (0..policies).map(|at| (at.to_string(), policy.clone()));
        let document = json!({
            "duration_s": duration, "warmup_s": 1, "arrivals": [{"per_s": 0}],
            "backends": [{"servers": 1, "latency": {"fixed_ms": 1}}],
            "policies": policies.collect::<serde_json::Map<_, _>>(),
        });
        Scenario::parse(&document.to_string())
    };
    assert!(read(2, 1e6).is_ok() && read(1000, 2001.0).is_ok());
    assert_eq!(
        read(1000, 2002.0).unwrap_err().faults()[0].to_string(),
        "$.duration_s: must be at most 2000 s after the warm-up with 1000 policies, got 2001 s"
    );
}

#[test]
fn lists_that_every_event_searches_are_bounded() {
    let faults = |latency: Value, faults: usize| {
        let faults: Vec<Value> = (0..faults)
            .map(|at| json!({"kind": "error", "code": 500, "pushback_ms": at}))
            .collect();
        let document = json!({
            "duration_s": 1, "arrivals": [{"per_s": 1}],
            "backends": [{"servers": 1, "latency": latency, "faults": faults}],
            "overload": {"code": 503},
            "policies": {"once": {"http_policy": {"default": {}}}},
        });
        let refused = Scenario::parse(&document.to_string()).unwrap_err();
        refused.faults()[0].to_string()
    };
    let short = json!({"fixed_ms": 1});
    assert_eq!(
        faults(short.clone(), 1001),
        "$.backends[0].faults: must have at most 1000 items"
    );
    assert_eq!(
        faults(short, 1000),
        "$.overload: is one of more than 1000 different codes and pushbacks"
    );
    let parts = vec![json!({"weight": 1, "fixed_ms": 1}); 101];
    assert_eq!(
        faults(json!({"mix": parts}), 0),
        "$.backends[0].latency.mix: must have at most 100 items"
    );
}

#[test]
fn a_negative_zero_is_a_zero() {
    let document = r#"{"duration_s": 1, "arrivals": [{"per_s": -0}],
        "backends": [{"servers": 1, "latency": {"fixed_ms": 1}}],
        "policies": {"a": {"http_policy": {}}}}"#;
    let report = Scenario::parse(document).unwrap();
    let report = report.run(&Limits { max_events: 10 }).unwrap();
    assert_eq!(report.policy("a").unwrap().calls, 0);
}

#[test]
fn a_call_that_tries_ten_thousand_backends_ends_soon() {
    let refuses = r#"{"servers": 1, "latency": {"fixed_ms": 1}, "faults": [{"kind": "refuse"}]}"#;
    let backends = [refuses; 10_000].join(",");
    let policy =
        r#"{"default": {"retry": {"maxAttempts": 1000, "backoff": {"initial": "0.001s"}}}}"#;
    for (pick, per_s, with) in [
        ("random", 10, "{}"),
        ("round_robin", 10, "{}"),
        ("least_loaded", 10, "{}"),
        ("random", 2, r#"{"health": {}}"#),
    ] {
        let document = format!(
            r#"{{"duration_s": 1, "arrivals": [{{"per_s": {per_s}}}], "backends": [{backends}], "pick": "{pick}",
            "policies": {{"a": {{"http_policy": {policy}, "with": {with}}}}}}}"#
        );
        let report = Scenario::parse(&document).unwrap();
        let report = report.run(&Limits::default()).unwrap();
        let amplification = report.policy("a").unwrap().amplification;
        assert_eq!(amplification, 1000.0, "{pick}, with {with}");
    }
}
