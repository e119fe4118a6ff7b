//! `reattempt check`.

mod couchbase;

use serde_json::{Value, json};

use super::{file, path, run, run_with};

/// The exit status, and the lines without the file that begins and the kind that ends each of them
/// for people.
async fn check(flags: &str, file: &str) -> (i32, Vec<String>) {
    let ended = run(format!("check {flags} '{file}'")).await;
    let lines = ended.out.lines().map(|line| {
        let (rest, kind) = line.rsplit_once(" (").expect("a line ends with its kind");
        if let Some(given) = flags.strip_prefix("--kind ") {
            assert_eq!(kind.trim_end_matches(')'), given);
        }
        let line = rest
            .strip_prefix(file)
            .and_then(|line| line.strip_prefix(": "));
        line.expect("a line begins with its file").to_owned()
    });
    (ended.status.unwrap(), lines.collect())
}

/// The exit status, and the report for programs.
async fn report(flags: &str, file: &str) -> (i32, Value) {
    let ended = run(format!("check --json {flags} '{file}'")).await;
    let report = serde_json::from_str(&ended.out).unwrap();
    (ended.status.unwrap(), report)
}

/// This status, and exactly these lines.
#[track_caller]
fn is<const N: usize>(found: (i32, Vec<String>), status: i32, lines: [&str; N]) {
    assert_eq!(found, (status, lines.map(str::to_owned).to_vec()));
}

/// That these are the beginnings of all lines.
#[track_caller]
fn begin<const N: usize>(lines: &[String], beginnings: [&str; N]) {
    assert_eq!(lines.len(), N, "{lines:#?}");
    for (line, begins) in lines.iter().zip(beginnings) {
        assert!(line.starts_with(begins), "{begins}: {lines:#?}");
    }
}

#[tokio::test]
async fn every_fault_of_a_service_config_is_one_line_with_its_path() {
    let config = json!({"methodConfig": [{"name": [{}], "timeout": "1m", "retryPolicy": {
        "maxAttempts": 1, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }}]});
    let wrong = file("wrong.json", config.to_string());
    let path = "$.methodConfig[0].retryPolicy.maxAttempts";
    let message = "must be an integer greater than 1, got 1";
    let (status, lines) = check("", &wrong).await;
    assert_eq!((status, &*lines[0]), (1, &*format!("{path}: {message}")));
    begin(
        &lines,
        [path, "$.methodConfig[0].timeout: must be a duration"],
    );

    let (status, report) = report("", &wrong).await;
    assert_eq!((status, &report["usable"]), (1, &json!(false)));
    assert_eq!(report["faults"][0]["path"], path);
    assert_eq!(report["faults"][0]["message"], message);
    assert_eq!(report["warnings"], json!([]));
}

#[tokio::test]
async fn warnings_are_marked_and_do_not_fail() {
    let good = file("warned.json", r#"{"methodConfig": [], "unknown": 1}"#);
    let (status, lines) = check("--kind service-config", &good).await;
    begin(&lines, ["warning: $.unknown: ", "ok"]);
    assert_eq!((status, &*lines[1]), (0, "ok"));
}

#[tokio::test]
async fn unknown_fields_and_load_amplification_are_warnings() {
    let slip = r#"{"methodConfig": [{"name": [{}], "hedgingPolicy": {"MaxAttempts": 3}}]}"#;
    let lines = [
        "$.methodConfig[0].hedgingPolicy.maxAttempts: is missing: an integer is needed (there is \"MaxAttempts\": names must match exactly)",
        "warning: $.methodConfig[0].hedgingPolicy.MaxAttempts: is not known and has no effect: write maxAttempts",
    ];
    is(check("", &file("slip.json", slip)).await, 1, lines);
    let hedges = r#"{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "1s"}}]}"#;
    let (status, report) = report("", &file("hedges.json", hedges)).await;
    assert_eq!((status, &report["usable"]), (0, &json!(true)));
    let warning = &report["warnings"][0];
    assert_eq!(warning["path"], "$.methodConfig[0].hedgingPolicy");
    let message = warning["message"].as_str().unwrap();
    assert!(message.starts_with("can amplify load: "), "{message}");
}

#[tokio::test]
async fn every_choice_of_a_list_is_looked_into() {
    let kind = "--kind service-config-choices";
    let list = r#"[{"percentage": 5, "serviceConfig": {"methodConfig": [{"timeout": "1"}], "x": 1}}, {"serviceConfig": {}}]"#;
    let (status, lines) = check(kind, &file("list.json", list)).await;
    assert_eq!(status, 1);
    let timeout = "$[0].serviceConfig.methodConfig[0].timeout: must be a duration";
    begin(
        &lines[..2],
        [timeout, "warning: $[0].serviceConfig.x: is not known"],
    );
    let list = r#"[{"percent": 5, "serviceConfig": {}}]"#;
    let (status, lines) = check(kind, &file("unknown.json", list)).await;
    assert_eq!(status, 1);
    begin(&lines[..1], ["$[0].percent: is not known"]);
    let good = file("choices.json", r#"[{"serviceConfig": {}}]"#);
    is(check(kind, &good).await, 0, ["ok"]);
}

#[tokio::test]
async fn the_members_of_a_file_say_its_kind() {
    let config = r#"{"rev": 7, "nodesExt": [{"hostname": "h", "services": {"kv": 11210}}]}"#;
    for (content, kind) in [
        (r#"{"routes": []}"#, "http-policy"),
        (r#"{"methodConfig": []}"#, "service-config"),
        (
            r#"{"version": 1, "revision": 1, "errors": {}}"#,
            "error-map",
        ),
        (config, "cluster-config"),
        ("{}", "service-config"),
    ] {
        let path = file("kind.json", content);
        let said = run(format!("check '{path}'")).await.says(0);
        assert_eq!(said, format!("{path}: ok ({kind})\n"));
        assert_eq!(report("", &path).await.1["kind"], kind);
    }
}

#[tokio::test]
async fn a_file_of_two_kinds_is_refused() {
    let both = file("both.json", r#"{"routes": [], "methodConfig": []}"#);
    let said = run(format!("check '{both}'")).await.says(1);
    let fault = "$: has members of two kinds: methodConfig (service-config), routes (http-policy)";
    assert!(said.trim_end().ends_with(fault), "{said}");
    let (status, report) = report("", &both).await;
    assert_eq!((status, &report["kind"]), (1, &Value::Null));
}

#[tokio::test]
async fn a_kind_that_was_given_is_checked_whatever_the_members() {
    for (kind, other) in [
        ("service-config", "routes"),
        ("http-policy", "methodConfig"),
    ] {
        let file = file("another-kind.json", format!(r#"{{"{other}": []}}"#));
        let warning = format!("warning: $.{other}: is not known and has no effect");
        let found = check(&format!("--kind {kind}"), &file).await;
        is(found, 0, [&warning, "ok"]);
    }
}

#[tokio::test]
async fn strict_fails_on_warnings_too() {
    let warned = file("strict.json", r#"{"methodConfig": [], "unknown": 1}"#);
    assert_eq!(check("", &warned).await.0, 0);
    let (status, lines) = check("--strict", &warned).await;
    assert_eq!((status, &*lines[1]), (1, "fails by --strict"));
    let clean = file("clean.json", r#"{"methodConfig": []}"#);
    assert_eq!(check("--strict", &clean).await.0, 0);
}

#[tokio::test]
async fn a_dash_is_standard_input() {
    let config = r#"{"methodConfig": [{"name": [{}], "timeout": "1m"}]}"#;
    let said = run_with("check -", config).await.says(1);
    assert!(said.starts_with("-: $.methodConfig[0].timeout: "), "{said}");
}

#[tokio::test]
async fn a_second_dash_is_a_file_that_cannot_be_read() {
    let said = run_with("check - -", r#"{"methodConfig": []}"#)
        .await
        .says(1);
    let again = "-: $: cannot be read: standard input was read already";
    assert_eq!(said, format!("-: ok (service-config)\n{again}\n"));
}

#[tokio::test]
async fn error_maps_and_cluster_configurations_are_checked_as_such() {
    let map = r#"{"version": 1, "revision": 1, "errors": {"d": {"name": "A", "desc": "b", "attrs": []}}}"#;
    let map = file("map.json", map);
    assert_eq!(check("--kind error-map", &map).await.0, 0);
    let (status, lines) = check("--kind cluster-config", &map).await;
    assert_eq!(status, 1);
    assert!(lines[0].starts_with('$'), "{lines:?}");

    let config = r#"{"rev": 7, "nodesExt": [{"hostname": "$HOST", "services": {"kv": 11210}}]}"#;
    let config = file("cluster.json", config);
    assert_eq!(check("--kind cluster-config", &config).await.0, 0);
    let (status, lines) = check("--kind cluster-config", &file("half.json", "{")).await;
    assert_eq!(status, 1);
    assert!(lines[0].starts_with("$: not JSON"), "{lines:?}");
}

#[tokio::test]
async fn http_policies_are_checked_and_load_amplification_warns() {
    let kind = "--kind http-policy";
    let policy = r#"{"routes": [{"hedge": {"delay": "0.1s"}, "timeout": "1s"}]}"#;
    let (status, lines) = check(kind, &file("policy.json", policy)).await;
    assert_eq!(status, 0);
    assert!(lines.len() > 1, "{lines:?}");
    begin(&lines[..1], ["warning: $.routes[0]"]);
    let policy = r#"{"routes": [{"match": {"query": {"watch": "true"}}, "refused": "ambiguous"},
        {"match": {"query": {"watch": 1}}, "refused": "no"}]}"#;
    let (status, lines) = check(kind, &file("query.json", policy)).await;
    assert_eq!(status, 1);
    let refused = "$.routes[1].refused: must be \"unprocessed\" or \"ambiguous\"";
    begin(
        &lines,
        [
            "$.routes[1].match.query.watch: must be the parameter's value",
            refused,
        ],
    );
    let policy = r#"{"routes": [{"timeout": "5m"}, {"retry": {"maxAttempts": 0}}]}"#;
    let (status, lines) = check(kind, &file("bad.json", policy)).await;
    assert_eq!(status, 1);
    let timeout = "$.routes[0].timeout: must be a duration";
    begin(&lines[..2], [timeout, "$.routes[1].retry.maxAttempts: "]);
}

#[tokio::test]
async fn a_retry_budget_fed_by_requests_is_warned_of() {
    let policy = r#"{"default": {"retry": {}, "throttle": "shop"},
        "throttles": {"shop": {"retryRatio": 0.2, "minPerSecond": 10, "window": "10s"}}}"#;
    let found = check("--kind http-policy", &file("ratio.json", policy)).await;
    let warning = "warning: $.throttles.shop: a budget fed by requests does not recover from an \
                   overload: while every call fails, each of them still allows its share of a retry";
    is(found, 0, [warning, "ok"]);
}

#[tokio::test]
async fn one_bad_file_among_good_ones_fails_and_a_missing_one_is_bad() {
    let (good, missing) = (file("good.json", "{}"), path("missing.json"));
    let said = run(format!("check '{good}' '{missing}'")).await.says(1);
    let lines = format!("{good}: ok (service-config)\n{missing}: $: cannot be read: ");
    assert!(said.starts_with(&lines), "{said}");
}
