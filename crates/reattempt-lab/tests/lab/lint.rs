//! The lint: each rule finds its fault, not the corrected policy, and the fault matters.

use reattempt_lab::lint::{COUNTER_EXAMPLES, lint};
use reattempt_lab::{KvStrategy, Limits, PolicyText, Scenario};
use serde_json::{Value, json};

use super::{http, run};

/// In the rule's counter-example the linted policy is at least twice as bad as the corrected one,
/// and the rule finds its fault in that one alone.
fn is_twice_as_bad(rule: &str) {
    let mut all = COUNTER_EXAMPLES.iter();
    let example = all.find(|example| example.rule == rule).unwrap();
    let [linted, corrected] = example.run().unwrap();
    assert!(
        linted >= 2.0 * corrected,
        "{linted} and {corrected} {}",
        example.measure
    );
    assert!(linted > 1.0, "{linted} {}", example.measure);
    let scenario = Scenario::parse(example.document).unwrap();
    let report = scenario.run(&Limits::default()).unwrap();
    let findings = |name| report.policy(name).unwrap().findings.iter();
    let found: Vec<_> = findings("linted").filter(|one| one.rule == rule).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].path.starts_with("$.default"), "{found:?}");
    let evidence = &found[0].evidence;
    assert!(
        evidence.starts_with("in the lab's counter-example"),
        "{evidence}"
    );
    assert!(findings("corrected").all(|one| one.rule != rule));
}

macro_rules! rules {
    ($($test:ident $rule:literal;)*) => {
        $(#[test]
        fn $test() {
            is_twice_as_bad($rule);
        })*

        #[test]
        fn every_rule_has_its_counter_example() {
            let known: Vec<&str> = COUNTER_EXAMPLES.iter().map(|example| example.rule).collect();
            assert_eq!(known, [$($rule),*]);
        }
    };
}

rules! {
    attempt_limit "attempt-limit";
    never_fits "never-fits";
    hedge_below_median "hedge-below-median";
    retries_multiply "retries-multiply";
    no_throttle "no-throttle";
    request_fed_budget "request-fed-budget";
    no_jitter "no-jitter";
    not_idempotent "not-idempotent";
    retry_after_herd "retry-after-herd";
    tiny_throttle "tiny-throttle";
    unearned_budget "unearned-budget";
}

#[test]
fn a_careful_policy_has_no_findings() {
    let http = r#"{"routes": [{"match": {"methods": ["GET"]}, "retry": {"maxAttempts": 3}, "timeout": "2s",
        "attemptTimeout": "0.5s", "throttle": "t"}], "throttles": {"t": {"maxTokens": 100, "tokenRatio": 0.1}}}"#;
    assert_eq!(lint(&PolicyText::HttpPolicy(http.to_owned())), []);
    let grpc = r#"{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "2s", "retryPolicy": {"maxAttempts": 3,
        "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}],
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1}}"#;
    assert_eq!(lint(&PolicyText::ServiceConfig(grpc.to_owned())), []);
    assert_eq!(lint(&PolicyText::Kv(KvStrategy::FailFast)), []);
}

/// The rules with their paths.
fn rules(policy: &PolicyText) -> Vec<String> {
    let found = lint(policy).into_iter();
    found
        .map(|one| format!("{} {}", one.rule, one.path))
        .collect()
}

#[test]
fn routes_that_share_a_throttle_are_asked_of_a_full_one() {
    let http = |tokens: u32| {
        let route = |method| {
            format!(
                r#"{{"match": {{"methods": ["{method}"]}}, "retry": {{"maxAttempts": 3}}, "throttle": "t"}}"#
            )
        };
        let hedged = r#"{"hedge": {"delay": "0.1s", "budgetPercent": 5}, "throttle": "t"}"#;
        let throttle = format!(r#"{{"maxTokens": {tokens}, "tokenRatio": 0.1}}"#);
        PolicyText::HttpPolicy(format!(
            r#"{{"routes": [{}, {}], "default": {hedged}, "throttles": {{"t": {throttle}}}}}"#,
            route("GET"),
            route("PUT")
        ))
    };
    let grpc = |tokens: u32| {
        let entry = |service| {
            format!(
                r#"{{"name": [{{"service": "{service}"}}], "timeout": "2s", "retryPolicy": {{"maxAttempts": 3,
                "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}}}"#
            )
        };
        PolicyText::ServiceConfig(format!(
            r#"{{"methodConfig": [{}, {}], "retryThrottling": {{"maxTokens": {tokens}, "tokenRatio": 0.1}}}}"#,
            entry("a.B"),
            entry("a.C")
        ))
    };
    for policy in [http(100), grpc(100)] {
        assert_eq!(rules(&policy.checked().unwrap()), [""; 0]);
    }
    let tiny = |paths: [&str; 2]| paths.map(|path| format!("tiny-throttle {path}"));
    assert_eq!(
        rules(&http(2)),
        tiny(["$.routes[0].throttle", "$.routes[1].throttle"])
    );
    assert_eq!(
        rules(&grpc(2)),
        tiny(["$.methodConfig[0]", "$.methodConfig[1]"])
    );
}

#[test]
fn hedges_with_a_learned_delay_are_hedges() {
    let found = |hedge: &str| {
        let policy = format!(r#"{{"default": {{"hedge": {{{hedge}}}}}}}"#);
        rules(&PolicyText::HttpPolicy(policy).checked().unwrap())
    };
    let percentile = r#""delay": {"percentile": 95}"#;
    assert_eq!(found(percentile), ["no-throttle $.default.hedge"]);
    assert_eq!(
        found(&format!(r#"{percentile}, "budgetPercent": 50"#)),
        ["request-fed-budget $.default.hedge"]
    );
    // Its share bounds no hedge that a failure causes.
    assert_eq!(
        found(r#""extraLoadPercent": 5"#),
        ["no-throttle $.default.hedge"]
    );
}

#[test]
fn findings_of_each_form_have_their_paths() {
    let grpc = r#"{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "1s"}, {"name": [{"service": "a.C"}],
        "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "INTERNAL"]}}]}"#;
    assert_eq!(
        rules(&PolicyText::ServiceConfig(grpc.to_owned())),
        [
            "no-throttle $.methodConfig[1].retryPolicy",
            "not-idempotent $.methodConfig[1].retryPolicy.retryableStatusCodes",
        ]
    );
    let kv = rules(&PolicyText::Kv(KvStrategy::BestEffort));
    assert_eq!(kv, ["no-throttle $", "no-jitter $"]);
}

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
