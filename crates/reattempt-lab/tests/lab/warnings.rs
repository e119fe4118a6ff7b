//! Warnings of policies, which do not keep a scenario from running.

use reattempt_lab::{PolicyText, Scenario};
use serde_json::{Value, json};

use super::one_call;

fn warnings(scenario: &Value) -> Vec<String> {
    let scenario = Scenario::parse(&scenario.to_string()).unwrap();
    scenario.warnings().map(ToString::to_string).collect()
}

/// Of a scenario with this policy.
fn of(policy: Value) -> Vec<String> {
    warnings(&one_call(policy))
}

#[test]
fn a_typo_is_a_warning_with_its_path_in_the_scenario() {
    let typo = || json!({"http_policy": {"default": {"retries": {"maxAttempts": 3}}}});
    let found = of(typo());
    let path = "$.policies.p.http_policy.default.retries: ";
    assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
    let tiers = json!({
        "duration_s": 1, "arrivals": [{"per_s": 1}],
        "tiers": [
            {"backends": [{"servers": 1, "latency": {"fixed_ms": 1}}]},
            {"policy": typo(), "backends": [{"servers": 1, "latency": {"fixed_ms": 1}}]},
        ],
        "policies": {"a b": {"service_config": {"methodConfigs": []}}},
    });
    let found = warnings(&tiers);
    let paths = [
        "$.policies[\"a b\"].service_config.methodConfigs: ",
        "$.tiers[1].policy.http_policy.default.retries: ",
    ];
    assert_eq!(found.len(), 2, "{found:?}");
    for (found, path) in found.iter().zip(paths) {
        assert!(found.starts_with(path), "{found}");
    }
}

#[test]
fn hop_marks_without_a_second_tier_are_a_warning() {
    let marks = |marks: bool| json!({"kv": "fail_fast", "with": {"hop_marks": marks}});
    let said =
        ["$.policies.p.with.hop_marks: has no effect: no server calls another one".to_owned()];
    assert_eq!(of(marks(true)), said);
    assert!(of(marks(false)).is_empty());
    let tier = json!({"backends": [{"servers": 1, "latency": {"fixed_ms": 1}}]});
    let mut tiers = json!({
        "duration_s": 1, "arrivals": [{"per_s": 1}], "tiers": [tier],
        "policies": {"p": marks(true)},
    });
    assert_eq!(warnings(&tiers), said);
    tiers["tiers"] = json!([tier, tier]);
    assert!(warnings(&tiers).is_empty());
}

#[test]
fn members_that_the_lab_does_not_simulate_are_warnings() {
    let grpc = json!({"service_config": {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": [{}], "waitForReady": false},
            {"name": [{"service": "a.B"}], "waitForReady": true, "maxRequestMessageBytes": 10}],
    }});
    let below = "$.policies.p.service_config";
    assert_eq!(
        of(grpc),
        [
            format!(
                "{below}.loadBalancingConfig: is not simulated: the scenario's pick chooses the backend"
            ),
            format!(
                "{below}.methodConfig[1].waitForReady: is not simulated: an attempt that finds no connection fails at once in the lab"
            ),
            format!(
                "{below}.methodConfig[1].maxRequestMessageBytes: is not simulated: calls have no bodies"
            ),
        ]
    );
    let http = json!({"http_policy": {
        "routes": [{"match": {"path": "/a"}, "bodyLimit": 100}, {"match": {"host": "a.example"}}],
        "default": {"bodyTimeout": "1s", "idempotencyKey": "generate"},
        "health": {}, "admission": {},
    }});
    let found = of(http);
    let paths = [
        "routes[0].bodyLimit",
        "routes[1].match.host",
        "default.bodyTimeout",
        "default.idempotencyKey",
    ];
    assert_eq!(found.len(), paths.len(), "{found:?}");
    for (found, path) in found.iter().zip(paths) {
        let begins = format!("$.policies.p.http_policy.{path}: is not simulated: ");
        assert!(found.starts_with(&begins), "{found}");
    }
}

#[test]
fn a_replay_warns_of_what_it_does_not_look_at() {
    let paths = |text: Value| {
        let (_, warnings) = PolicyText::of_file(&text.to_string()).unwrap();
        let paths = warnings.into_iter().map(|warning| warning.path);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(
        paths(json!({"default": {"retries": {}}, "health": {}})),
        ["$.default.retries", "$.health"]
    );
    assert_eq!(
        paths(json!({
            "http_policy": {"default": {"bodyLimit": 1}, "health": {}}, "with": {"governor": true}, "whit": 1
        })),
        [
            "$.whit",
            "$.http_policy.default.bodyLimit",
            "$.with",
            "$.http_policy.health"
        ]
    );
}

/// The parsers read past what no string or number of a program can be.
#[test]
fn an_unread_text_hides_no_warnings() {
    let paths = |text: &str| {
        let (_, warnings) = PolicyText::of_file(text).unwrap();
        let paths = warnings.into_iter().map(|warning| warning.path);
        paths.collect::<Vec<_>>()
    };
    let found = ["$.note", "$.default.bodyLimit", "$.health"];
    for unread in [
        r#""a note""#,
        r#""\ud800""#,
        r#"{"\ud800": 1}"#,
        "[1e400]",
        r#"{"a": 1, "a": 2}"#,
    ] {
        let text =
            format!(r#"{{"note": {unread}, "default": {{"bodyLimit": 1}}, "health": {{}}}}"#);
        assert_eq!(paths(&text), found, "{unread}");
    }
    let config = r#"{"methodConfig": [{"name": [{}], "waitForReady": true}], "note": "\ud800"}"#;
    assert_eq!(paths(config), ["$.note", "$.methodConfig[0].waitForReady"]);
}

#[test]
fn the_list_of_warnings_has_a_bound() {
    let typos: serde_json::Map<_, _> = (0..1000)
        .map(|nth| (format!("typo{nth}"), json!(nth)))
        .collect();
    let found = of(json!({"http_policy": {"default": typos}}));
    assert_eq!(found.len(), 101);
    let expected = "$.policies.p.http_policy: has 900 more warnings than are listed";
    assert_eq!(found[100], expected);
}
