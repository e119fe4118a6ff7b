//! The lint: each rule finds its fault, not the corrected policy, and the fault matters.

use reattempt_lab::lint::{COUNTER_EXAMPLES, lint};
use reattempt_lab::{KvStrategy, Limits, PolicyText, Scenario};
use serde_json::{Value, json};

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
    let mut places = ["$.default", "$.throttles.t"].iter();
    assert!(places.any(|place| found[0].path.starts_with(place)));
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
    // Routes share it: one finding, at its own place.
    assert_eq!(rules(&http(2)), ["tiny-throttle $.throttles.t"]);
    assert_eq!(rules(&grpc(2)), ["tiny-throttle $.retryThrottling"]);
}

#[test]
fn a_throttle_is_named_once_by_its_place() {
    let retry = || json!({"retry": {"maxAttempts": 3}, "throttle": "of a shop"});
    let other = json!({"match": {"path": "/u"}, "retry": {"maxAttempts": 3}, "throttle": "u"});
    let mut first = retry();
    first["match"] = json!({"path": "/t"});
    let tiny = json!({"maxTokens": 2, "tokenRatio": 0.1});
    // The two routes with one throttle do not follow each other.
    let found = rules_of(json!({
        "routes": [first, other], "default": retry(),
        "throttles": {"of a shop": tiny, "u": tiny},
    }));
    let throttles = [r#"["of a shop"]"#, ".u"];
    assert_eq!(
        found,
        throttles.map(|place| format!("tiny-throttle $.throttles{place}"))
    );
}

/// A governor of any size allows a retry after a failure that stands alone.
#[test]
fn a_small_governor_is_no_tiny_throttle() {
    for burst in [1, 2, 5, 20] {
        let policy = format!(
            r#"{{"default": {{"retry": {{"maxAttempts": 3}}, "timeout": "2s", "attemptTimeout": "0.5s", "throttle": "t"}},
            "throttles": {{"t": {{"governor": {{"burst": {burst}}}}}}}}}"#
        );
        let policy = PolicyText::HttpPolicy(policy).checked().unwrap();
        let found = rules(&policy);
        assert!(
            found.iter().all(|rule| !rule.starts_with("tiny-throttle")),
            "{burst}: {found:?}"
        );
    }
}

#[test]
fn hedges_with_a_learned_delay_are_hedges() {
    let found = |hedge: &str| {
        let policy = format!(r#"{{"default": {{"hedge": {{{hedge}}}}}}}"#);
        rules(&PolicyText::HttpPolicy(policy).checked().unwrap())
    };
    let text = |hedge: &str| {
        let policy = format!(r#"{{"default": {{"hedge": {{{hedge}}}}}}}"#);
        let found = lint(&PolicyText::HttpPolicy(policy).checked().unwrap());
        found[0].text.clone()
    };
    let percentile = r#""delay": {"percentile": 95}"#;
    assert_eq!(found(percentile), ["no-throttle $.default.hedge"]);
    assert_eq!(
        found(&format!(r#"{percentile}, "budgetPercent": 50"#)),
        ["request-fed-budget $.default.hedge"]
    );
    // Its share bounds no hedge that a failure causes.
    for percent in ["0.1", "5", "50"] {
        let bounded = format!(r#""extraLoadPercent": {percent}"#);
        assert_eq!(found(&bounded), ["no-throttle $.default.hedge"]);
        let follows = "no throttle or budget holds back the hedges that follow a failure";
        assert_eq!(text(&bounded), follows);
    }
    assert!(text(percentile).ends_with("when all servers are slow or fail"));
}

/// The rules with their paths of an HTTP policy of this document.
fn rules_of(document: Value) -> Vec<String> {
    rules(
        &PolicyText::HttpPolicy(document.to_string())
            .checked()
            .unwrap(),
    )
}

#[test]
fn a_limit_of_an_attempt_above_the_calls_leaves_hedges_alone() {
    let found = |way: &str, settings: Value| {
        let mut route = json!({"timeout": "1s", "attemptTimeout": "2s", "throttle": "t"});
        route[way] = settings;
        rules_of(json!({
            "default": route, "throttles": {"t": {"maxTokens": 100, "tokenRatio": 0.1}}
        }))
    };
    let limit = "attempt-limit $.default.attemptTimeout";
    assert_eq!(found("retry", json!({"maxAttempts": 3})), [limit]);
    let hedge = json!({"delay": "0.1s", "budgetPercent": 5});
    assert_eq!(found("hedge", hedge), [""; 0]);
}

#[test]
fn a_time_window_gives_back_what_it_counted() {
    let found = |throttle: &Value, way: &Value| {
        let mut route = way.clone();
        route["throttle"] = json!("t");
        let mut other = way.clone();
        other["throttle"] = json!("u");
        other["match"] = json!({"path": "/u"});
        rules_of(json!({
            "routes": [other], "default": route, "throttles": {"t": throttle, "u": throttle}
        }))
    };
    let retry = json!({"retry": {"maxAttempts": 3}});
    let hedge = json!({"hedge": {"delay": "0.1s", "budgetPercent": 5}});
    for way in [&retry, &hedge] {
        assert_eq!(found(&json!({"retryRatio": 0.1}), way), [""; 0]);
        // Without a floor successes earn, if they come soon enough.
        let share = json!({"retryRatio": 0.01, "minPerSecond": 0});
        assert_eq!(found(&share, way), [""; 0]);
    }
    // A window of more than ten minutes does not.
    let hour = json!({"retryRatio": 0.1, "minPerSecond": 1, "window": "3600s"});
    let unearned = ["u", "t"].map(|name| format!("unearned-budget $.throttles.{name}"));
    assert_eq!(found(&hour, &retry), unearned);
}

#[test]
fn a_throttle_that_closes_late_is_one() {
    let found = |percent: u32, throttled: bool| {
        let mut route = json!({"hedge": {"delay": "0.1s", "budgetPercent": percent}});
        if throttled {
            route["throttle"] = json!("t");
        }
        rules_of(json!({
            "default": route, "throttles": {"t": {"maxTokens": 1000, "tokenRatio": 1}}
        }))
    };
    assert_eq!(found(50, true), [""; 0]);
    let fed = "request-fed-budget $.default.hedge";
    assert_eq!(found(50, false), [fed]);
    assert_eq!(found(10, false), [fed]);
    assert_eq!(found(9, false), [""; 0]);
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

/// Each budget and throttle are asked while both are full. A policy with many of them takes no
/// longer than its text is long: this one took minutes.
#[test]
#[allow(clippy::disallowed_methods, reason = "no time is paused here")]
fn many_hedged_routes_that_share_a_throttle_are_linted_soon() {
    let route = |at: usize| {
        let budget = format!("b{}", at % 2);
        let hedge = json!({"delay": "0.1s", "budget": budget});
        json!({"match": {"path": format!("/{at}")}, "hedge": hedge, "throttle": "t"})
    };
    let found = |routes: usize, ratio: f64| {
        let hedge = json!({"delay": "0.1s", "budgetPercent": 5});
        let text = json!({
            "routes": (0..routes).map(route).collect::<Vec<_>>(),
            "default": {"hedge": hedge, "throttle": "t"},
            "throttles": {"t": {"maxTokens": 10, "tokenRatio": ratio}},
            "budgets": {"b0": {"percent": 5}, "b1": {"percent": 50}},
        });
        rules(&PolicyText::HttpPolicy(text.to_string()).checked().unwrap())
    };
    let begun = std::time::Instant::now();
    assert_eq!(found(999, 0.1), [""; 0]);
    assert!(begun.elapsed().as_secs() < 30);
    let path = ["routes[0]", "routes[1]", "default"];
    let unearned = path.map(|path| format!("unearned-budget $.{path}.hedge"));
    assert_eq!(found(2, 0.001), unearned);
}

#[test]
fn a_number_beyond_f64_hides_no_findings() {
    let grpc = |ratio: &str| {
        let policy = format!(
            r#"{{"methodConfig": [{{"name": [{{"service": "a.B"}}], "retryPolicy": {{"maxAttempts": 3,
            "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE", "INTERNAL"]}}}}],
            "retryThrottling": {{"maxTokens": 2, "tokenRatio": {ratio}}}}}"#
        );
        rules(&PolicyText::ServiceConfig(policy).checked().unwrap())
    };
    let tiny = "tiny-throttle $.retryThrottling".to_owned();
    assert!(grpc("1e300").contains(&tiny), "{:?}", grpc("1e300"));
    assert_eq!(grpc("1e400"), grpc("1e300"));

    // A route with a throttle and a budget is asked in a copy of its own.
    let http = |note: &str| {
        let policy = format!(
            r#"{{"routes": [{{"match": {{"path": "/a"}}, "hedge": {{"delay": "0.1s", "budget": "b"}}, "throttle": "t"}}],
            "throttles": {{"t": {{"maxTokens": 10, "tokenRatio": 0.001}}}}, "budgets": {{"b": {{"percent": 5}}}},
            "note": {note}}}"#
        );
        rules(&PolicyText::HttpPolicy(policy).checked().unwrap())
    };
    let unearned = ["unearned-budget $.routes[0].hedge"];
    assert_eq!(http("1e300"), unearned);
    assert_eq!(http("1e400"), unearned);
}
