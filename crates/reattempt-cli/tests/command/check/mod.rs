//! `reattempt check`.

mod couchbase;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{run, text};

/// Creates a file for one test.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// The exit status, and the lines without the kind that ends each of them for people.
async fn check(arguments: &[&str], file: &Path) -> (Option<i32>, Vec<String>) {
    let name = file.to_str().unwrap();
    let flags: Vec<&str> = [&["check"], arguments, &[name]].concat();
    let output = run(&flags, String::new()).await;
    let lines = text(&output.stdout);
    let lines = lines.lines().map(|line| {
        let line = line.replace(name, "FILE");
        if arguments.contains(&"--json") {
            return line;
        }
        let (rest, kind) = line.rsplit_once(" (").expect("a line ends with its kind");
        if let Some(at) = arguments.iter().position(|flag| *flag == "--kind") {
            assert_eq!(kind.trim_end_matches(')'), arguments[at + 1]);
        }
        rest.to_owned()
    });
    let lines = lines.collect();
    (output.status.code(), lines)
}

#[tokio::test]
async fn every_fault_of_a_service_config_is_one_line_with_its_path() {
    let config = json!({"methodConfig": [{"name": [{}], "timeout": "1m", "retryPolicy": {
        "maxAttempts": 1, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }}]});
    let wrong = file("wrong.json", &config.to_string());
    let (status, lines) = check(&[], &wrong).await;
    assert_eq!(status, Some(1));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        "FILE: $.methodConfig[0].retryPolicy.maxAttempts: must be an integer greater than 1, got 1"
    );
    assert!(lines[1].starts_with("FILE: $.methodConfig[0].timeout: must be a duration"));

    let (status, lines) = check(&["--json"], &wrong).await;
    assert_eq!(status, Some(1));
    let report: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(report["usable"], false);
    assert_eq!(
        report["faults"][0]["path"],
        "$.methodConfig[0].retryPolicy.maxAttempts"
    );
    assert_eq!(
        report["faults"][0]["message"],
        "must be an integer greater than 1, got 1"
    );
    assert_eq!(report["warnings"], json!([]));
}

#[tokio::test]
async fn warnings_are_marked_and_do_not_fail() {
    let good = file("warned.json", r#"{"methodConfig": [], "unknown": 1}"#);
    let (status, lines) = check(&["--kind", "service-config"], &good).await;
    assert_eq!(status, Some(0));
    assert!(
        lines[0].starts_with("FILE: warning: $.unknown: "),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["FILE: ok"]);
}

#[tokio::test]
async fn unknown_fields_and_load_amplification_are_warnings() {
    let slip = r#"{"methodConfig": [{"name": [{}], "hedgingPolicy": {"MaxAttempts": 3}}]}"#;
    let slip = file("slip.json", slip);
    let (status, lines) = check(&[], &slip).await;
    assert_eq!(status, Some(1));
    assert_eq!(
        lines,
        [
            "FILE: $.methodConfig[0].hedgingPolicy.maxAttempts: is missing: an integer is needed (there is \"MaxAttempts\": names must match exactly)",
            "FILE: warning: $.methodConfig[0].hedgingPolicy.MaxAttempts: is not known and has no effect: write maxAttempts",
        ]
    );
    let hedges = r#"{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "1s"}}]}"#;
    let (status, lines) = check(&["--json"], &file("hedges.json", hedges)).await;
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(report["usable"], true);
    assert_eq!(
        report["warnings"][0]["path"],
        "$.methodConfig[0].hedgingPolicy"
    );
    let message = report["warnings"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("can amplify load: "), "{message}");
}

#[tokio::test]
async fn every_choice_of_a_list_is_looked_into() {
    let kind = ["--kind", "service-config-choices"];
    let list = r#"[{"percentage": 5, "serviceConfig": {"methodConfig": [{"timeout": "1"}], "x": 1}}, {"serviceConfig": {}}]"#;
    let (status, lines) = check(&kind, &file("list.json", list)).await;
    assert_eq!(status, Some(1));
    assert!(
        lines[0]
            .starts_with("FILE: $[0].serviceConfig.methodConfig[0].timeout: must be a duration"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("FILE: warning: $[0].serviceConfig.x: is not known"),
        "{lines:?}"
    );
    let list = r#"[{"percent": 5, "serviceConfig": {}}]"#;
    let (status, lines) = check(&kind, &file("unknown.json", list)).await;
    assert_eq!(status, Some(1));
    assert!(lines[0].starts_with("FILE: $[0].percent: is not known"));
    let good = file("choices.json", r#"[{"serviceConfig": {}}]"#);
    assert_eq!(
        check(&kind, &good).await,
        (Some(0), vec!["FILE: ok".to_owned()])
    );
}

#[tokio::test]
async fn the_members_of_a_file_say_its_kind() {
    for (name, content, kind) in [
        ("k1.json", r#"{"routes": []}"#, "http-policy"),
        ("k2.json", r#"{"methodConfig": []}"#, "service-config"),
        (
            "k3.json",
            r#"{"version": 1, "revision": 1, "errors": {}}"#,
            "error-map",
        ),
        (
            "k4.json",
            r#"{"rev": 7, "nodesExt": [{"hostname": "h", "services": {"kv": 11210}}]}"#,
            "cluster-config",
        ),
        ("k5.json", "{}", "service-config"),
    ] {
        let path = file(name, content);
        let output = run(&["check", path.to_str().unwrap()], String::new()).await;
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.ends_with(&format!("{name}: ok ({kind})\n")), "{said}");
        let (_, lines) = check(&["--json"], &path).await;
        let report: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(report["kind"], kind);
    }
}

#[tokio::test]
async fn a_file_of_two_kinds_is_refused() {
    let both = file("both.json", r#"{"routes": [], "methodConfig": []}"#);
    let output = run(&["check", both.to_str().unwrap()], String::new()).await;
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let fault = "$: has members of two kinds: methodConfig (service-config), routes (http-policy)";
    assert!(said.trim_end().ends_with(fault), "{said}");
    let (status, lines) = check(&["--json"], &both).await;
    let report: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((status, &report["kind"]), (Some(1), &Value::Null));
}

#[tokio::test]
async fn a_kind_that_was_given_is_checked_whatever_the_members() {
    let unknown = |name| {
        let warning = format!("FILE: warning: $.{name}: is not known and has no effect");
        (Some(0), vec![warning, "FILE: ok".to_owned()])
    };
    let policy = file("policy_as_config.json", r#"{"routes": []}"#);
    let found = check(&["--kind", "service-config"], &policy).await;
    assert_eq!(found, unknown("routes"));
    let config = file("config_as_policy.json", r#"{"methodConfig": []}"#);
    let found = check(&["--kind", "http-policy"], &config).await;
    assert_eq!(found, unknown("methodConfig"));
}

#[tokio::test]
async fn strict_fails_on_warnings_too() {
    let warned = file("strict.json", r#"{"methodConfig": [], "unknown": 1}"#);
    assert_eq!(check(&[], &warned).await.0, Some(0));
    let (status, lines) = check(&["--strict"], &warned).await;
    assert_eq!(status, Some(1));
    assert_eq!(lines[1], "FILE: fails by --strict");
    let clean = file("clean.json", r#"{"methodConfig": []}"#);
    assert_eq!(check(&["--strict"], &clean).await.0, Some(0));
}

#[tokio::test]
async fn a_dash_is_standard_input() {
    let config = r#"{"methodConfig": [{"name": [{}], "timeout": "1m"}]}"#;
    let output = run(&["check", "-"], config.to_owned()).await;
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.starts_with("-: $.methodConfig[0].timeout: "), "{said}");
}

#[tokio::test]
async fn a_second_dash_is_a_file_that_cannot_be_read() {
    let output = run(&["check", "-", "-"], r#"{"methodConfig": []}"#.to_owned()).await;
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let lines: Vec<_> = said.lines().collect();
    let again = "-: $: cannot be read: standard input was read already";
    assert_eq!(lines, ["-: ok (service-config)", again]);
}

#[tokio::test]
async fn error_maps_and_cluster_configurations_are_checked_as_such() {
    let map = r#"{"version": 1, "revision": 1, "errors": {"d": {"name": "A", "desc": "b", "attrs": []}}}"#;
    let map = file("map.json", map);
    assert_eq!(check(&["--kind", "error-map"], &map).await.0, Some(0));
    let (status, lines) = check(&["--kind", "cluster-config"], &map).await;
    assert_eq!(status, Some(1));
    assert!(lines[0].starts_with("FILE: $"), "{lines:?}");

    let config = r#"{"rev": 7, "nodesExt": [{"hostname": "$HOST", "services": {"kv": 11210}}]}"#;
    let config = file("cluster.json", config);
    assert_eq!(
        check(&["--kind", "cluster-config"], &config).await.0,
        Some(0)
    );
    let (status, lines) = check(&["--kind", "cluster-config"], &file("half.json", "{")).await;
    assert_eq!(status, Some(1));
    assert!(lines[0].starts_with("FILE: $: not JSON"), "{lines:?}");
}

#[tokio::test]
async fn http_policies_are_checked_and_load_amplification_warns() {
    let policy = r#"{"routes": [{"hedge": {"delay": "0.1s"}, "timeout": "1s"}]}"#;
    let (status, lines) = check(&["--kind", "http-policy"], &file("policy.json", policy)).await;
    assert_eq!(status, Some(0));
    assert!(lines.len() > 1, "{lines:?}");
    assert!(
        lines[0].starts_with("FILE: warning: $.routes[0]"),
        "{lines:?}"
    );
    let policy = r#"{"routes": [{"match": {"query": {"watch": "true"}}, "refused": "ambiguous"},
        {"match": {"query": {"watch": 1}}, "refused": "no"}]}"#;
    let (status, lines) = check(&["--kind", "http-policy"], &file("query.json", policy)).await;
    assert_eq!((status, lines.len()), (Some(1), 2), "{lines:?}");
    assert!(
        lines[0].starts_with("FILE: $.routes[1].match.query.watch: must be the parameter's value"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("FILE: $.routes[1].refused: must be \"unprocessed\" or \"ambiguous\""),
        "{lines:?}"
    );
    let policy = r#"{"routes": [{"timeout": "5m"}, {"retry": {"maxAttempts": 0}}]}"#;
    let (status, lines) = check(&["--kind", "http-policy"], &file("bad.json", policy)).await;
    assert_eq!(status, Some(1));
    assert!(
        lines[0].starts_with("FILE: $.routes[0].timeout: must be a duration"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("FILE: $.routes[1].retry.maxAttempts: "),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_retry_budget_fed_by_requests_is_warned_of() {
    let policy = r#"{"default": {"retry": {}, "throttle": "shop"},
        "throttles": {"shop": {"retryRatio": 0.2, "minPerSecond": 10, "window": "10s"}}}"#;
    let (status, lines) = check(&["--kind", "http-policy"], &file("ratio.json", policy)).await;
    assert_eq!(status, Some(0));
    assert_eq!(
        lines,
        [
            "FILE: warning: $.throttles.shop: a budget fed by requests does not recover from an \
             overload: while every call fails, each of them still allows its share of a retry",
            "FILE: ok",
        ]
    );
}

#[tokio::test]
async fn one_bad_file_among_good_ones_fails_and_a_missing_one_is_bad() {
    let good = file("good.json", "{}");
    let missing = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("missing.json");
    let arguments = ["check", good.to_str().unwrap(), missing.to_str().unwrap()];
    let output = run(&arguments, String::new()).await;
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].ends_with("good.json: ok (service-config)"),
        "{said}"
    );
    assert!(
        lines[1].contains("missing.json: $: cannot be read: "),
        "{said}"
    );
}
