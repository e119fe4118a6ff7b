//! Search: the frontier of success against extra load and the 99th percentile.

use reattempt::config::Faults;
use reattempt_lab::tune::{Knob, Point, Range, tune};
use reattempt_lab::{Limits, Scenario};
use serde_json::{Value, json};

use super::{http, near, one_call, world};

fn scenario(policy: Value) -> Scenario {
    Scenario::parse(&document(policy)).unwrap()
}

fn document(policy: Value) -> String {
    let latency = json!({"exponential_ms": 10});
    let faults = json!([{"kind": "error", "share": 0.3}]);
    let mut scenario = world(20.0, 100.0, 100, latency, faults);
    scenario["policies"] = json!({ "p": policy });
    scenario.to_string()
}

fn ranges(texts: &[&str]) -> Vec<Range> {
    texts
        .iter()
        .map(|text| Range::parse(text).unwrap())
        .collect()
}

/// The frontier of the policy `p`, with these knobs and this number of seeds.
fn frontier(scenario: &Scenario, knobs: &[&str], seeds: u32) -> Result<Vec<Point>, Faults> {
    tune(scenario, "p", &ranges(knobs), seeds, &Limits::default())
}

fn retrying() -> Scenario {
    scenario(json!({"http_policy": {
        "default": {"retry": {"maxAttempts": 2, "backoff": {"initial": "0.1s"}}, "throttle": "t"},
        "throttles": {"t": {"maxTokens": 50, "tokenRatio": 0.5}}
    }}))
}

#[test]
fn more_attempts_buy_success_with_load() {
    let knobs = ["attempts=1..5", "backoff=0.01..0.1"];
    let points = frontier(&retrying(), &knobs, 2).unwrap();
    assert!(points.len() >= 3, "{points:?}");
    assert!(points.is_sorted_by(|a, b| a.success >= b.success));
    let all = |a: &Point, b: &Point| {
        let tails = [a, b].map(|point| point.p99_ms.unwrap());
        b.success >= a.success && b.extra_load <= a.extra_load && tails[1] <= tails[0]
    };
    for point in &points {
        let beaten = points.iter().filter(|other| all(point, other)).count();
        assert_eq!(beaten, 1, "by itself alone: {points:?}");
    }
    let last = points.last().unwrap();
    assert_eq!(
        (last.settings[0], last.extra_load),
        ((Knob::Attempts, 1.0), Some(0.0))
    );
    // The text of a point is a policy with its settings.
    let first = &points[0];
    let retry = &first.policy["http_policy"]["default"]["retry"];
    assert_eq!(retry["maxAttempts"].as_f64(), Some(first.settings[0].1));
    assert_eq!(
        retry["backoff"]["initial"],
        format!("{}s", first.settings[1].1)
    );
    let again = frontier(&retrying(), &knobs, 2).unwrap();
    assert_eq!(points, again, "the same seed gives the same bytes");
}

#[test]
fn an_earlier_hedge_buys_a_shorter_tail_with_load() {
    let mut calm = world(20.0, 100.0, 100, json!({"exponential_ms": 10}), json!([]));
    let hedge = json!({"maxAttempts": 2, "delay": "0.05s"});
    calm["policies"] = json!({ "p": http(json!({ "hedge": hedge })) });
    let calm = Scenario::parse(&calm.to_string()).unwrap();
    let points = frontier(&calm, &["hedge-delay=0.005..0.1"], 2).unwrap();
    assert!(points.len() >= 3, "{points:?}");
    assert!(points.iter().all(|point| point.success == 1.0));
    assert!(points.is_sorted_by(|a, b| a.extra_load < b.extra_load && a.p99_ms > b.p99_ms));
}

#[test]
fn a_point_has_the_parts_of_its_stack() {
    let with = json!({"governor": true, "health": {"maxEjectionPercent": 50}});
    let mut policy = http(json!({"retry": {"maxAttempts": 2}}));
    policy["with"] = with.clone();
    let points = frontier(&scenario(policy), &["attempts=1..2"], 1).unwrap();
    assert!(points.iter().all(|point| point.policy["with"] == with));
}

#[test]
fn every_form_has_its_knobs() {
    let grpc = json!({"service_config": {
        "methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
            "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
    }});
    let hedging = json!({"http_policy": {"default": {"hedge": {"maxAttempts": 2, "delay": "0.05s",
        "budgetPercent": 5}}}});
    let constant = json!({"kv": {"constant_ms": 10, "max_attempts": 3}});
    let cases = [
        (
            grpc,
            vec!["attempts=2..3", "backoff=0.1..0.1", "throttle=10..11"],
        ),
        (hedging, vec!["hedge-delay=0.01..0.05", "hedge-share=1..10"]),
        (constant, vec!["attempts=1..2", "backoff=0.01..0.02"]),
    ];
    for (policy, knobs) in cases {
        let points = frontier(&scenario(policy), &knobs, 1).unwrap();
        assert!(!points.is_empty() && points[0].settings.len() == knobs.len());
    }
}

#[test]
fn a_learned_hedge_delay_is_tuned_as_a_duration() {
    let hedge = json!({"delay": {"percentile": 95}, "budgetPercent": 5});
    let learning = scenario(http(json!({ "hedge": hedge })));
    let points = frontier(&learning, &["hedge-delay=0.01..0.1"], 1).unwrap();
    assert!(!points.is_empty());
    for point in points {
        let delay = &point.policy["http_policy"]["default"]["hedge"]["delay"];
        assert_eq!(*delay, format!("{}s", point.settings[0].1));
    }
}

#[test]
fn extra_load_is_measured_where_the_policy_sends() {
    let backend =
        |faults: Value| json!([{"servers": 100, "latency": {"fixed_ms": 1}, "faults": faults}]);
    let failing = backend(json!([{"kind": "error", "share": 0.3}]));
    let scenario = json!({
        "duration_s": 20,
        "arrivals": [{"per_s": 100}],
        "tiers": [
            {"policy": http(json!({})), "backends": backend(json!([]))},
            {"backends": failing},
        ],
        "policies": {"p": http(json!({"retry": {"maxAttempts": 2}}))},
    });
    let scenario = Scenario::parse(&scenario.to_string()).unwrap();
    let points = frontier(&scenario, &["attempts=1..2"], 1).unwrap();
    let loads: Vec<f64> = points.iter().filter_map(|point| point.extra_load).collect();
    assert_eq!((loads.len(), loads[1]), (2, 0.0), "{loads:?}");
    near(loads[0], 0.3, 0.1, "a retry of each failure");
}

/// The loads of one and of two attempts, by the first tier's policy and the backends' faults.
fn loads(tiers: Value, policy: Value, knob: &str) -> Vec<Option<f64>> {
    let scenario = json!({
        "duration_s": 20, "arrivals": [{"per_s": 100}], "tiers": tiers, "policies": {"p": policy},
    });
    let scenario = Scenario::parse(&scenario.to_string()).unwrap();
    let points = frontier(&scenario, &[knob], 2).unwrap();
    points.iter().map(|point| point.extra_load).collect()
}

#[test]
fn extra_load_is_beyond_the_calls_that_reach_the_tier() {
    let backends =
        |faults: Value| json!([{"servers": 100, "latency": {"fixed_ms": 1}, "faults": faults}]);
    let failing = |share: f64| backends(json!([{"kind": "error", "share": share}]));
    // Half of the calls fail at the outer tier, before it calls the one behind.
    let outer = json!({"policy": http(json!({})), "backends": failing(0.5)});
    let tiers = json!([outer, {"backends": failing(0.3)}]);
    let retrying = http(json!({"retry": {"maxAttempts": 2}}));
    let found = loads(tiers, retrying, "attempts=1..2");
    assert_eq!((found.len(), found[1]), (2, Some(0.0)), "{found:?}");
    near(found[0].unwrap(), 0.3, 0.1, "a retry of each failure");

    // An admission refuses most calls of a server that fails: they are no calls to it.
    let mut admitted = http(json!({"retry": {"maxAttempts": 1}}));
    admitted["with"] = json!({"admission": true});
    let found = loads(
        json!([{"backends": failing(1.0)}]),
        admitted,
        "attempts=1..1",
    );
    assert_eq!(found, [Some(0.0)]);
}

#[test]
fn there_is_no_extra_load_without_a_call() {
    let down = json!([{"servers": 1, "latency": {"fixed_ms": 1}, "faults": [{"kind": "error"}]}]);
    let outer = json!({"policy": http(json!({})), "backends": down});
    let tiers = json!([outer, {"backends": down}]);
    let retrying = http(json!({"retry": {"maxAttempts": 2}}));
    assert_eq!(loads(tiers, retrying, "attempts=1..2"), [None]);
}

#[test]
fn a_search_that_cannot_be_made_says_why() {
    for text in [
        "attempts",
        "attempts=1",
        "attempts=5..1",
        "speed=1..2",
        "backoff=0..1",
        "backoff=x..2",
    ] {
        assert!(Range::parse(text).is_err(), "{text}");
    }
    // Both bounds are tried, so that they must be values.
    for (text, steps) in [
        ("hedge-delay=0.0015..0.0045", "0.001"),
        ("backoff=0.001..0.0015", "0.001"),
        ("hedge-share=1..1.25", "0.1"),
        ("attempts=1.5..9", "1"),
        ("throttle=10..1000.5", "1"),
    ] {
        let name = text.split('=').next().unwrap();
        let expected = format!("the bounds of {name} must be multiples of {steps}");
        assert_eq!(Range::parse(text), Err(expected));
    }
    let refused = |name: &str, knobs: &[&str], seeds| {
        let refused = tune(&retrying(), name, &ranges(knobs), seeds, &Limits::default());
        refused.unwrap_err().faults()[0].to_string()
    };
    assert_eq!(refused("q", &["attempts=1..2"], 1), "$.policies: has no q");
    assert_eq!(
        refused("p", &["hedge-share=1..2"], 1),
        "$.policies.p: has no hedge.budgetPercent: add it, or name another policy by --tuned"
    );
    assert_eq!(
        refused("p", &["attempts=1..2"], 0),
        "--tune: needs a knob, and from 1 to 100 seeds"
    );
    assert_eq!(
        refused("p", &["attempts=1..2", "backoff=1..2", "attempts=3..4"], 1),
        "--tune: names the knob attempts twice"
    );
    let hedging = scenario(json!({"http_policy": {
        "default": {"hedge": {"maxAttempts": 2, "delay": "0.05s", "budgetPercent": 5},
            "throttle": "t"},
        "throttles": {"t": {"maxTokens": 50, "tokenRatio": 0.5}}
    }}));
    // Six values of each.
    let (attempts, share) = ("attempts=1..6", "hedge-share=1..50");
    let many = [attempts, "hedge-delay=0.01..1", share, "throttle=10..1000"];
    let many = frontier(&hedging, &many, 1).unwrap_err();
    let combinations = "--tune: has more than 1000 combinations";
    assert_eq!(many.faults()[0].to_string(), combinations);
    let short = Limits { max_events: 10 };
    let short = tune(&retrying(), "p", &ranges(&["attempts=1..2"]), 1, &short);
    let short = short.unwrap_err();
    let short = &short.faults()[0];
    assert!(short.path == "$.policies.p" && short.what.contains("10 events"));
    // A value that the policy cannot have is the policy's own fault.
    let grpc = scenario(json!({"service_config": {"methodConfig": [{"name": [{}],
        "hedgingPolicy": {"maxAttempts": 2}}]}}));
    let wrong = frontier(&grpc, &["attempts=1..1"], 1).unwrap_err();
    let path = "$.policies.p.service_config.methodConfig[0].hedgingPolicy.maxAttempts";
    assert!(
        wrong.faults().len() == 1 && wrong.faults()[0].path == path,
        "{wrong}"
    );
}

#[test]
fn a_policy_without_a_knob_is_refused_with_the_member() {
    let refused = |policy: Value, knob: &str| {
        let scenario = one_call(policy)
            .to_string()
            .replace("{\"p\":", "{\"three attempts\":");
        let scenario = Scenario::parse(&scenario).unwrap();
        let limits = Limits::default();
        let refused = tune(&scenario, "three attempts", &ranges(&[knob]), 1, &limits);
        refused.unwrap_err().faults()[0].to_string()
    };
    let once = || json!({"http_policy": {"default": {}}});
    let hedges = json!({"http_policy": {"default": {"hedge": {"delay": "0.1s"}}}});
    let grpc = || json!({"service_config": {"methodConfig": [{"name": [{}]}]}});
    let kv = || json!({"kv": "best_effort"});
    for (policy, knob, member) in [
        (once(), "attempts=1..2", "retry.maxAttempts"),
        (hedges, "attempts=1..2", "hedge.maxAttempts"),
        (once(), "backoff=1..2", "retry.backoff.initial"),
        (once(), "throttle=1..2", "throttle with maxTokens"),
        (grpc(), "attempts=1..2", "retryPolicy.maxAttempts"),
        (grpc(), "hedge-delay=1..2", "hedgingPolicy.hedgingDelay"),
        (kv(), "attempts=1..2", "kv.max_attempts"),
    ] {
        let expected = format!(
            "$.policies[\"three attempts\"]: has no {member}: add it, or name another policy by --tuned"
        );
        assert_eq!(refused(policy, knob), expected);
    }
    assert_eq!(
        refused(grpc(), "hedge-share=1..2"),
        "$.policies[\"three attempts\"]: cannot have the knob hedge-share: name another policy by --tuned"
    );
}

#[test]
fn all_runs_of_a_search_share_one_bound() {
    let one = ranges(&["attempts=2..2"]);
    // Above 2,000 calls with two events each, below four times as many runs.
    let limits = Limits { max_events: 20_000 };
    assert!(tune(&retrying(), "p", &one, 1, &limits).is_ok());
    let refused = tune(&retrying(), "p", &one, 4, &limits).unwrap_err();
    let fault = refused.faults()[0].to_string();
    assert!(
        fault.starts_with("$.policies.p: the search was ended after 20000 events"),
        "{fault}"
    );
}

#[test]
fn a_number_beyond_f64_hides_no_knobs() {
    let policy = r#"{"http_policy": {"default": {"retry": {"maxAttempts": 2}, "throttle": "t"},
        "throttles": {"t": {"maxTokens": 50, "tokenRatio": 1e400}}}, "with": {"hop_marks": true}}"#;
    let text = document(json!("policy")).replace("\"policy\"", policy);
    let scenario = Scenario::parse(&text).unwrap();
    let points = frontier(&scenario, &["attempts=2..2"], 1).unwrap();
    let policy = &points[0].policy;
    let throttle = &policy["http_policy"]["throttles"]["t"];
    assert_eq!(*throttle, json!({"maxTokens": 50, "tokenRatio": f64::MAX}));
    assert_eq!(policy["with"]["hop_marks"], json!(true));
}
