//! The lint in scenarios: what their tiers, calls and faults make of a policy.

use serde_json::{Value, json};

use super::{http, run};

/// The rules that find something in the policy `p` of a scenario, with their paths.
fn rules_in(scenario: &Value) -> Vec<String> {
    let report = run(scenario);
    let found = report.policy("p").unwrap().findings.iter();
    found
        .map(|one| format!("{} {}", one.rule, one.path))
        .collect()
}

/// One second of this policy in these tiers.
fn tiers(policy: &Value, tiers: &[Value]) -> Value {
    let backend = json!({"servers": 1, "latency": {"fixed_ms": 1}});
    let mut tiers = json!(tiers);
    for tier in tiers.as_array_mut().unwrap() {
        tier["backends"] = json!([backend]);
    }
    json!({"duration_s": 1, "arrivals": [{"per_s": 1}], "tiers": tiers, "policies": {"p": policy}})
}

fn retrying() -> Value {
    http(json!({"retry": {"maxAttempts": 3}}))
}

fn with(mut policy: Value, parts: Value) -> Value {
    policy["with"] = parts;
    policy
}

#[test]
fn what_a_governor_holds_back_is_no_finding() {
    let hedge = json!({"delay": {"percentile": 95}, "budgetPercent": 50});
    let hedging = http(json!({ "hedge": hedge }));
    let inner = [json!({}), json!({"policy": retrying()})];
    let found = |policy: &Value| rules_in(&tiers(policy, &inner));
    let multiply = "retries-multiply $.default.retry";
    assert_eq!(
        found(&retrying()),
        [multiply, "no-throttle $.default.retry"]
    );
    assert_eq!(found(&hedging), ["request-fed-budget $.default.hedge"]);
    for policy in [retrying(), hedging] {
        assert_eq!(found(&with(policy, json!({"governor": true}))), [""; 0]);
    }
}

#[test]
fn retries_multiply_within_the_tiers_of_the_policy() {
    let rule = "retries-multiply $.default.retry".to_owned();
    let found = |policy: &Value, inner: &[Value]| rules_in(&tiers(policy, inner)).contains(&rule);
    let tested = || json!({});
    let own = |policy: &Value| json!({ "policy": policy });
    let (retries, once) = (own(&retrying()), own(&http(json!({}))));
    assert!(found(&retrying(), &[tested(), tested()]));
    assert!(found(
        &retrying(),
        &[once.clone(), tested(), retries.clone()]
    ));
    for inner in [
        // Those that call the policy's tier retry, or none does.
        vec![retries.clone(), tested()],
        vec![tested(), once.clone()],
        vec![retries.clone(), retries.clone()],
    ] {
        assert!(!found(&retrying(), &inner), "{inner:?}");
    }
}

#[test]
fn retries_multiply_where_one_hop_has_no_marks() {
    let rule = "retries-multiply $.default.retry".to_owned();
    let marking = |policy: Value| with(policy, json!({"hop_marks": true}));
    let tested = marking(retrying());
    let own = |policy: Value| json!({ "policy": policy });
    let found = |inner: &[Value]| {
        let inner = [&[json!({})], inner].concat();
        rules_in(&tiers(&tested, &inner)).contains(&rule)
    };
    assert!(!found(&[json!({})]));
    assert!(!found(&[own(marking(retrying()))]));
    assert!(found(&[own(retrying())]));
    // A hop between them passes the mark on.
    let inner = own(marking(retrying()));
    assert!(!found(&[own(marking(http(json!({})))), inner.clone()]));
    assert!(found(&[own(http(json!({}))), inner]));
}

#[test]
fn the_limit_of_a_call_is_that_of_its_own_route() {
    let slow = json!({"maxAttempts": 3, "backoff": {"initial": "2s", "jitter": "none"}});
    let attempts = json!({"retry": slow, "attemptTimeout": "0.5s"});
    let mut reads = attempts.clone();
    reads["match"] = json!({"methods": ["GET"]});
    let policy = json!({"http_policy": {"routes": [reads], "default": attempts}});
    let call = |method: &str, ms: u32| json!({"method": method, "timeout_ms": ms});
    let found = |policy: &Value, calls: Value, all: &[Value]| {
        let mut scenario = tiers(policy, all);
        scenario["call"] = calls;
        let found = rules_in(&scenario).into_iter();
        let limits = |one: &String| one.starts_with("attempt-limit") || one.starts_with("never-");
        found.filter(limits).collect::<Vec<_>>()
    };
    let tested = [json!({})];
    let both = |path: &str| {
        let limit = format!("attempt-limit {path}.attemptTimeout");
        [limit, format!("never-fits {path}.retry")]
    };
    let calls = json!([call("GET", 400), call("POST", 60_000)]);
    assert_eq!(found(&policy, calls, &tested), both("$.routes[0]"));
    let calls = json!([call("GET", 60_000), call("GET", 60_000), call("POST", 400)]);
    assert_eq!(found(&policy, calls, &tested), both("$.default"));
    // The calls of a server have the limits of its policy alone.
    let inner = [json!({"policy": http(json!({}))}), json!({})];
    assert_eq!(found(&policy, call("GET", 400), &inner), [""; 0]);
    // Each name of an entry is a route.
    let retry = json!({"maxAttempts": 3, "initialBackoff": "2s", "maxBackoff": "2s",
        "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]});
    let entry = |names: Value| json!({"name": names, "retryPolicy": retry});
    let grpc = json!({"service_config": {"methodConfig": [
        entry(json!([{"service": "a"}, {"service": "b"}])), entry(json!([{"service": "c"}])),
    ]}});
    let call = json!({"path": "/b/get", "timeout_ms": 400});
    let expected = ["never-fits $.methodConfig[0].retryPolicy"];
    assert_eq!(found(&grpc, call, &tested), expected);
    let kv = json!({"kv": {"constant_ms": 2000, "max_attempts": 3}});
    let call = json!({"timeout_ms": 400});
    assert_eq!(found(&kv, call, &tested), ["never-fits $"]);
}

/// Whether a herd comes back in this scenario, with these faults of a tier.
fn herd(mut scenario: Value, tier: usize, faults: Value) -> bool {
    scenario["tiers"][tier]["backends"][0]["faults"] = faults;
    rules_in(&scenario).contains(&"retry-after-herd $.default.retryAfter.spread".to_owned())
}

/// A limiter whose refusals have this code and pushback.
fn limit(code: u32, ms: Value) -> Value {
    json!({"kind": "limit", "per_s": 1, "code": code, "pushback_ms": ms})
}

#[test]
fn a_herd_comes_back_to_any_limiter_with_a_pushback() {
    let found = |faults| herd(tiers(&retrying(), &[json!({})]), 0, faults);
    let (without, told) = (limit(429, Value::Null), limit(429, json!(1000)));
    assert!(found(json!([told])));
    assert!(!found(json!([without])));
    assert!(found(json!([without, told])));
    let error = json!({"kind": "error", "code": 429, "pushback_ms": 1000});
    assert!(!found(json!([error])));
}

#[test]
fn a_herd_needs_an_answer_that_is_retried() {
    let found = |retry: Value, code: u32| {
        let scenario = tiers(&http(json!({ "retry": retry })), &[json!({})]);
        herd(scenario, 0, json!([limit(code, json!(1000))]))
    };
    assert!(found(json!({"maxAttempts": 3}), 429));
    assert!(!found(json!({"maxAttempts": 3}), 400));
    assert!(!found(json!({"maxAttempts": 3, "statuses": [503]}), 429));
    assert!(found(json!({"maxAttempts": 3, "statuses": [503]}), 503));
}

#[test]
fn a_herd_comes_back_where_the_policy_sees_the_pushback() {
    let found = |all: &[Value], limited: usize| {
        let faults = json!([limit(429, json!(1000))]);
        herd(tiers(&retrying(), all), limited, faults)
    };
    let (tested, own) = (json!({}), json!({"policy": http(json!({}))}));
    let (first, second) = ([tested.clone(), own.clone()], [own, tested.clone()]);
    assert!(found(&first, 0));
    // The server between them does not pass the pushback on.
    assert!(!found(&first, 1));
    assert!(!found(&second, 0));
    assert!(found(&second, 1));
    assert!(found(&[tested.clone(), tested], 1));
}

#[test]
fn successes_are_those_of_each_process_of_the_policy() {
    let policy = json!({"http_policy": {
        "default": {"retry": {"maxAttempts": 3}, "throttle": "t"},
        "throttles": {"t": {"maxTokens": 10, "tokenRatio": 0.1}}
    }});
    let found = |all: &[Value], clients: u32, servers: usize| {
        let mut scenario = tiers(&policy, all);
        scenario["clients"] = json!(clients);
        let backend = scenario["tiers"][0]["backends"][0].clone();
        scenario["tiers"][0]["backends"] = json!(vec![backend; servers]);
        rules_in(&scenario).contains(&"unearned-budget $.throttles.t".to_owned())
    };
    // 600 calls in ten minutes, and 51 successes earn an attempt.
    let (tested, own) = (json!({}), json!({"policy": http(json!({}))}));
    assert!(!found(std::slice::from_ref(&tested), 10, 100));
    assert!(found(std::slice::from_ref(&tested), 100, 10));
    let inner = [own, tested];
    assert!(!found(&inner, 100, 10));
    assert!(found(&inner, 10, 100));
}

#[test]
fn a_hedge_delay_is_held_against_the_tiers_behind_too() {
    let hedging = |delay: &str| http(json!({"hedge": {"delay": delay}}));
    let rule = "hedge-below-median $.default.hedge".to_owned();
    let found = |inner: Vec<Value>, ms: u32| {
        let all = [vec![json!({})], inner].concat();
        let mut scenario = tiers(&hedging("0.05s"), &all);
        for tier in &mut scenario["tiers"].as_array_mut().unwrap()[1..] {
            tier["backends"][0]["latency"] = json!({ "fixed_ms": ms });
        }
        scenario["rtt_ms"] = json!(10);
        rules_in(&scenario).contains(&rule)
    };
    let once = || json!({"policy": http(json!({}))});
    assert!(!found(vec![], 0));
    assert!(found(vec![once()], 40));
    // The time on the network counts once for each hop.
    assert!(found(vec![once()], 31));
    assert!(!found(vec![once()], 30));
    assert!(found(vec![once(), once()], 21));
    assert!(found(vec![json!({})], 40));
    // Hedges there may answer before the server's time.
    assert!(!found(vec![json!({"policy": hedging("0.01s")})], 40));
}

#[test]
fn a_hedge_delay_matters_to_calls_that_are_hedged() {
    let found = |policy: &Value, calls: Value| {
        let mut scenario = tiers(policy, &[json!({})]);
        scenario["call"] = calls;
        let found = rules_in(&scenario).into_iter();
        found
            .filter(|one| one.starts_with("hedge-below-median"))
            .count()
    };
    let hedging = http(json!({"hedge": {"delay": "0.0005s"}}));
    let call = |method: &str| json!({"method": method});
    assert_eq!(found(&hedging, call("GET")), 1);
    assert_eq!(found(&hedging, call("POST")), 0);
    assert_eq!(found(&hedging, json!([call("POST"), call("GET")])), 1);
    // The owner of a method of a service config says that it may be hedged.
    let grpc = json!({"service_config": {"methodConfig": [
        {"name": [{}], "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0.0005s"}}
    ]}});
    assert_eq!(found(&grpc, json!({"path": "/a/b"})), 1);
}
