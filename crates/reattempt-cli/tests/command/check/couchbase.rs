//! Error maps and cluster configurations.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{check, file};
use crate::{run, text};

async fn map(name: &str, json: &str) -> (Option<i32>, Vec<String>) {
    check(&["--kind", "error-map"], &file(name, json)).await
}

async fn config(name: &str, json: &str) -> (Option<i32>, Vec<String>) {
    check(&["--kind", "cluster-config"], &file(name, json)).await
}

/// C23 C24: a skipped entry is a warning with its path, and the map can be used.
#[tokio::test]
async fn what_is_skipped_of_a_map_is_a_warning() {
    let json = r#"{"version": 2, "revision": 1, "errors": {
        "0x1": {"attrs": []}, "10000": {"attrs": []}, "zz": {"attrs": []}, "": {"attrs": []},
        "1": 7, "2": {}, "3": {"attrs": "temp"}, "4": {"attrs": ["temp", 4]},
        "5": {"attrs": [], "retry": {"strategy": "sometimes"}}, "F1": {"attrs": []}, "0f1": {"attrs": []},
        "6": {"name": "N", "desc": "d", "attrs": ["retry-now", "of-tomorrow"]}
    }}"#;
    let (status, lines) = map("skipped.json", json).await;
    assert_eq!(status, Some(0));
    let hex = "the key must be a status in hex, 0 to ffff; the entry is skipped";
    for (path, message) in [
        ("0x1", hex),
        ("10000", hex),
        ("zz", hex),
        ("", hex),
        ("1", "must be an object; the entry is skipped"),
        ("2.attrs", "must be a list of names; the entry is skipped"),
        ("3.attrs", "must be a list of names; the entry is skipped"),
        ("4.attrs", "must be a list of names; the entry is skipped"),
        (
            "5.retry.strategy",
            "must be constant, linear or exponential; the retry specification is not used",
        ),
        (
            "0f1",
            "the status is there already in another spelling; the entry is skipped",
        ),
    ] {
        let line = format!("FILE: warning: $.errors.{path}: {message}");
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
    assert_eq!(lines.len(), 11, "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("FILE: ok"));
}

/// Every fault is one line, with control characters in names escaped.
#[tokio::test]
async fn a_name_moves_no_cursor_and_begins_no_line() {
    let json = r#"{"version": 2, "revision": 1, "errors": {"z\n\u001b[2J\u202e": {}}}"#;
    let (status, lines) = map("moves.json", json).await;
    assert_eq!(status, Some(0));
    let hex = "the key must be a status in hex, 0 to ffff; the entry is skipped";
    let warning = format!(r"FILE: warning: $.errors.z\n\u{{1b}}[2J\u{{202e}}: {hex}");
    assert_eq!(lines, [warning, "FILE: ok".to_owned()]);
}

/// One fault, one line: a name in the document may contain any character.
#[tokio::test]
async fn a_name_with_a_line_break_makes_no_line_of_its_own() {
    let json =
        r#"{"version": 2, "revision": 1, "errors": {"a\nFILE: ok\u001b[2J": {"attrs": []}}}"#;
    let (status, lines) = map("break.json", json).await;
    assert_eq!((status, lines.len()), (Some(0), 2), "{lines:#?}");
    let place = r"FILE: warning: $.errors.a\nFILE: ok\u{1b}[2J: the key must be";
    assert!(lines[0].starts_with(place), "{lines:#?}");
}

/// C25
#[tokio::test]
async fn maps_of_any_version_can_be_used() {
    for (n, json) in [
        r#"{"version": 1, "revision": 0, "errors": {}}"#,
        r#"{"version": 2, "revision": 9, "errors": {}}"#,
        r#"{"version": 99, "revision": 18446744073709551615, "errors": {}, "more": {}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let (status, lines) = map(&format!("version{n}.json"), json).await;
        assert_eq!((status, lines), (Some(0), vec!["FILE: ok".to_owned()]));
    }
    let (status, lines) = map("versionless.json", r#"{"errors": {}}"#).await;
    assert_eq!(status, Some(0));
    assert_eq!(
        lines,
        [
            "FILE: warning: $.version: is missing; 1 is assumed",
            "FILE: warning: $.revision: is missing; 0 is assumed",
            "FILE: ok",
        ]
    );
}

/// C23: every fault that makes a map unusable.
#[tokio::test]
async fn what_is_no_map_cannot_be_used() {
    for (n, (json, lines)) in [
        ("", &["$: not JSON, at line 1, column 0: "][..]),
        ("{\"errors\": {", &["$: not JSON, at line 1, column 12: "]),
        ("[]", &["$: must be an object"]),
        ("null", &["$: must be an object"]),
        (
            r#"{"version": 1, "revision": 1}"#,
            &["$.errors: must be an object of statuses"],
        ),
        (
            r#"{"version": "2", "revision": -1, "errors": []}"#,
            &[
                "$.version: must be an integer that is not negative",
                "$.revision: must be an integer that is not negative",
                "$.errors: must be an object of statuses",
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, said) = map(&format!("nomap{n}.json"), json).await;
        assert_eq!(status, Some(1), "{json}");
        assert_eq!(said.len(), lines.len(), "{said:?}");
        for (said, line) in said.iter().zip(lines) {
            assert!(said.starts_with(&format!("FILE: {line}")), "{said}");
        }
    }
    let huge = format!(r#"{{"errors": {{}}, "x": "{}"}}"#, "x".repeat(1 << 20));
    let (status, lines) = map("huge-map.json", &huge).await;
    assert_eq!(status, Some(1));
    assert!(
        lines[0].starts_with("FILE: $: an error map of 1048"),
        "{lines:?}"
    );
}

/// A terse configuration of a bucket, the cluster's own, and an old one without `nodesExt`.
#[tokio::test]
async fn configurations_of_all_forms_can_be_used() {
    for (n, json) in [
        r#"{"rev": 7, "revEpoch": 1, "name": "b", "nodeLocator": "vbucket", "nodesExt": [
            {"hostname": "$HOST", "services": {"kv": 11210, "kvSSL": 11207, "mgmt": 8091}, "thisNode": true}],
            "vBucketServerMap": {"hashAlgorithm": "CRC", "numReplicas": 1, "serverList": ["$HOST:11210"],
                "vBucketMap": [[0, -1], [0, -1]]}, "bucketCapabilities": ["x"], "unknown": {"to": "us"}}"#,
        r#"{"rev": 7, "nodesExt": [{"services": {"mgmt": 8091}}], "clusterCapabilities": {}}"#,
        r#"{"rev": 7, "name": "b", "nodes": [{"hostname": "10.0.0.1:8091", "ports": {"direct": 11210}}]}"#,
        r#"{"rev": 7, "name": "b", "vBucketServerMap": {"hashAlgorithm": "CRC", "serverList": ["10.0.0.1:11210"], "vBucketMap": [[0]]}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let (status, lines) = config(&format!("config{n}.json"), json).await;
        assert_eq!((status, lines), (Some(0), vec!["FILE: ok".to_owned()]));
    }
}

/// Every fault, in the order of the configuration.
#[tokio::test]
async fn all_faults_of_a_configuration_are_told() {
    let json = r#"{"rev": -1, "revEpoch": "x", "name": 7, "nodesExt": [
        {"hostname": "a b", "services": {"kv": 0, "mgmt": 99999}},
        {"hostname": "fine", "services": {"kv": 11210}},
        7,
        {"hostname": "fine"}],
        "vBucketServerMap": {"hashAlgorithm": "MD5", "serverList": ["fine:11210"], "vBucketMap": [[0], [1]],
            "vBucketMapForward": [[]]}}"#;
    let (status, lines) = config("hostile.json", json).await;
    assert_eq!(status, Some(1));
    assert_eq!(
        lines,
        [
            "FILE: $.rev: must be an integer that is not negative",
            "FILE: $.revEpoch: must be an integer",
            "FILE: $.name: must be the bucket's name",
            "FILE: $.nodesExt[0].hostname: must be a host name, an IPv4 address or an IPv6 address",
            "FILE: $.nodesExt[0].services.kv: must be a port from 1 to 65535",
            "FILE: $.nodesExt[0].services.mgmt: must be a port from 1 to 65535",
            "FILE: $.nodesExt[2]: must be an object",
            "FILE: $.nodesExt[3].services: is missing",
            "FILE: $.vBucketServerMap.hashAlgorithm: must be CRC",
            "FILE: $.vBucketServerMap.vBucketMap[1][0]: must be -1 or the number of a server in serverList",
            "FILE: $.vBucketServerMap.vBucketMapForward[0]: must be a list of 1 to 16 servers, the active one first",
        ]
    );
    let (status, lines) = check(
        &["--kind", "cluster-config", "--json"],
        &file("hostile.json", json),
    )
    .await;
    assert_eq!(status, Some(1));
    let report: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(report["usable"], false);
    assert_eq!(report["warnings"], json!([]));
    assert_eq!(report["faults"].as_array().unwrap().len(), 11);
    assert_eq!(report["faults"][4]["path"], "$.nodesExt[0].services.kv");
}

#[tokio::test]
async fn hostile_configurations_cannot_be_used() {
    let deep = "[".repeat(100_000);
    let many = format!(
        r#"{{"nodesExt": [{}]}}"#,
        vec![r#"{"services": {"kv": 1}}"#; 5000].join(",")
    );
    let wrong = format!(r#"{{"nodesExt": [{}]}}"#, vec!["7"; 4000].join(","));
    for (n, (json, path, most)) in [
        ("", "$: not JSON", 1),
        (deep.as_str(), "$: not JSON", 1),
        ("7", "$: must be an object", 1),
        ("{}", "$.nodesExt: must name at least one node", 1),
        (r#"{"nodesExt": {}}"#, "$.nodesExt: must be a list of nodes", 1),
        (r#"{"nodesExt": []}"#, "$.nodesExt: must name at least one node", 1),
        (many.as_str(), "$.nodesExt: has more than 4096 nodes", 1),
        (wrong.as_str(), "$.nodesExt[0]: must be an object", 100),
        (
            r#"{"nodeLocator": "vbucket", "nodesExt": [{"services": {"kv": 1}}]}"#,
            "$.vBucketServerMap: is missing",
            1,
        ),
        (
            r#"{"nodesExt": [{"services": {"kv": 1}}], "vBucketServerMap": {"serverList": ["h"], "vBucketMap": []}}"#,
            "$.vBucketServerMap.serverList[0]: must be host:port",
            1,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, lines) = config(&format!("hostile{n}.json"), json).await;
        assert_eq!(status, Some(1), "{path}");
        assert!(lines[0].starts_with(&format!("FILE: {path}")), "{lines:?}");
        assert!(lines.len() <= most, "{}", lines.len());
    }
}

/// With several files each has its lines, and one invalid file determines the exit status.
#[tokio::test]
async fn each_file_has_its_own_lines() {
    let good = file(
        "good-map.json",
        r#"{"version": 1, "revision": 1, "errors": {}}"#,
    );
    let bad = file("bad-map.json", "{}");
    let names = [good.to_str().unwrap(), bad.to_str().unwrap()];
    let arguments = ["check", "--kind", "error-map", "--json", names[0], names[1]];
    let output = run(&arguments, String::new()).await;
    assert_eq!(output.status.code(), Some(1));
    let reports: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports[0]["usable"], true);
    assert_eq!(reports[1]["usable"], false);
    assert_eq!(reports[1]["file"], names[1]);
}

fn real(folder: &Path, name: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let json = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    json.filter(|path| name(path.file_name().unwrap().to_str().unwrap()))
        .collect()
}

/// Files of real servers from the folder in `REATTEMPT_DATA`, if it is set.
#[tokio::test]
async fn what_real_servers_sent_can_be_used() {
    let Some(data) = std::env::var_os("REATTEMPT_DATA") else {
        return;
    };
    let data = Path::new(&data).join("couchbase");
    let is_map = |name: &str| name.contains("err") && name.contains("map");
    let maps = [real(&data, is_map), real(&data.join("gocbcore"), is_map)].concat();
    assert!(maps.len() > 10);
    for map in maps {
        let (status, lines) = check(&["--kind", "error-map"], &map).await;
        assert_eq!(
            (status, lines),
            (Some(0), vec!["FILE: ok".to_owned()]),
            "{map:?}"
        );
    }
    let is_config = |name: &str| name.contains("config_") && !name.contains("placeholder");
    let configs = [
        real(&data.join("jvm"), is_config),
        real(&data.join("gocbcore"), is_config),
    ];
    let configs = configs.concat();
    assert!(configs.len() > 10);
    for config in configs {
        let (status, lines) = check(&["--kind", "cluster-config"], &config).await;
        assert_eq!(
            (status, lines),
            (Some(0), vec!["FILE: ok".to_owned()]),
            "{config:?}"
        );
    }
}
