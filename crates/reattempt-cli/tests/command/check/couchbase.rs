//! Error maps and cluster configurations.

use std::path::Path;

use serde_json::{Value, json};

use super::{check, file, is, report};
use crate::run;

async fn map(name: &str, json: &str) -> (i32, Vec<String>) {
    check("--kind error-map", &file(name, json)).await
}

async fn config(name: &str, json: &str) -> (i32, Vec<String>) {
    check("--kind cluster-config", &file(name, json)).await
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
    assert_eq!(status, 0);
    let hex = "the key must be a status in hex, 0 to ffff; the entry is skipped";
    for (path, message) in [
        ("0x1", hex),
        ("10000", hex),
        ("zz", hex),
        ("", hex),
        ("1", "must be an object, got 7; the entry is skipped"),
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
        let line = format!("warning: $.errors.{path}: {message}");
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
    assert_eq!(lines.len(), 11, "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("ok"));
}

#[tokio::test]
async fn unknown_fields_of_an_error_map_are_warnings() {
    let json = r#"{"version": 2, "revision": 1, "extra": 1, "errors": {"1": {"attrs": [], "Desc": "d",
        "retry": {"strategy": "constant", "after": 1, "interval": 1, "ceiling": 9}}}}"#;
    let lines = [
        "warning: $.extra: is not known and has no effect",
        "warning: $.errors.1.Desc: is not known and has no effect: write desc",
        "warning: $.errors.1.retry.ceiling: is not known and has no effect",
        "ok",
    ];
    is(map("unknown-fields.json", json).await, 0, lines);
}

/// Every fault is one line, with control characters in names escaped.
#[tokio::test]
async fn a_name_moves_no_cursor_and_begins_no_line() {
    let json = r#"{"version": 2, "revision": 1, "errors": {"z\n\u001b[2J\u202e": {}}}"#;
    let hex = "the key must be a status in hex, 0 to ffff; the entry is skipped";
    let warning = format!(r"warning: $.errors.z\n\u{{1b}}[2J\u{{202e}}: {hex}");
    is(map("moves.json", json).await, 0, [&warning, "ok"]);
}

/// C23 C25: every fault that makes a map unusable, and what is assumed of one that can be used.
#[tokio::test]
async fn what_is_no_map_cannot_be_used() {
    let json = r#"{"version": "2", "revision": -1, "errors": []}"#;
    let faults = [
        "$.version: must be an integer that is not negative",
        "$.revision: must be an integer that is not negative",
        "$.errors: must be an object of statuses",
    ];
    is(map("nomap.json", json).await, 1, faults);
    let version = "warning: $.version: is missing; 1 is assumed";
    let revision = "warning: $.revision: is missing; 0 is assumed";
    let versionless = map("versionless.json", r#"{"errors": {}}"#).await;
    is(versionless, 0, [version, revision, "ok"]);
}

/// A terse configuration of a bucket, the cluster's own, and an old one without `nodesExt`.
#[tokio::test]
async fn configurations_of_all_forms_can_be_used() {
    for json in [
        r#"{"rev": 7, "revEpoch": 1, "name": "b", "nodeLocator": "vbucket", "nodesExt": [
            {"hostname": "$HOST", "services": {"kv": 11210, "kvSSL": 11207, "mgmt": 8091}, "thisNode": true}],
            "vBucketServerMap": {"hashAlgorithm": "CRC", "numReplicas": 1, "serverList": ["$HOST:11210"],
                "vBucketMap": [[0, -1], [0, -1]]}, "bucketCapabilities": ["x"], "unknown": {"to": "us"}}"#,
        r#"{"rev": 7, "nodesExt": [{"services": {"mgmt": 8091}}], "clusterCapabilities": {}}"#,
        r#"{"rev": 7, "name": "b", "nodes": [{"hostname": "10.0.0.1:8091", "ports": {"direct": 11210}}]}"#,
        r#"{"rev": 7, "name": "b", "vBucketServerMap": {"hashAlgorithm": "CRC", "serverList": ["10.0.0.1:11210"], "vBucketMap": [[0]]}}"#,
    ] {
        is(config("form.json", json).await, 0, ["ok"]);
    }
}

/// Every fault, in the order of the configuration.
#[tokio::test]
async fn all_faults_of_a_configuration_are_reported() {
    let json = r#"{"rev": -1, "revEpoch": "x", "name": 7, "nodesExt": [
        {"hostname": "a b", "services": {"kv": 0, "mgmt": 99999}},
        {"hostname": "fine", "services": {"kv": 11210}},
        7,
        {"hostname": "fine"}],
        "vBucketServerMap": {"hashAlgorithm": "MD5", "serverList": ["fine:11210"], "vBucketMap": [[0], [1]],
            "vBucketMapForward": [[]]}}"#;
    let faults = [
        "$.rev: must be an integer from 0 to 2^63-1",
        "$.revEpoch: must be an integer from -2^63 to 2^63-1",
        "$.name: must be the bucket's name",
        "$.nodesExt[0].hostname: must be a host name, an IPv4 address or an IPv6 address",
        "$.nodesExt[0].services.kv: must be a port from 1 to 65535",
        "$.nodesExt[0].services.mgmt: must be a port from 1 to 65535",
        "$.nodesExt[2]: must be an object, got 7",
        "$.nodesExt[3].services: is missing",
        "$.vBucketServerMap.hashAlgorithm: must be CRC",
        "$.vBucketServerMap.vBucketMap[1][0]: must be -1 or the number of a server in serverList",
        "$.vBucketServerMap.vBucketMapForward[0]: must be a list of 1 to 16 servers, the active one first",
    ];
    is(config("hostile.json", json).await, 1, faults);
    let (status, report) = report("--kind cluster-config", &file("hostile.json", json)).await;
    assert_eq!(status, 1);
    assert_eq!(report["usable"], false);
    assert_eq!(report["warnings"], json!([]));
    assert_eq!(report["faults"].as_array().unwrap().len(), 11);
    assert_eq!(report["faults"][4]["path"], "$.nodesExt[0].services.kv");
}

#[tokio::test]
async fn a_hostile_configuration_gets_a_bounded_number_of_lines() {
    let deep = "[".repeat(100_000);
    let wrong = format!(r#"{{"nodesExt": [{}]}}"#, vec!["7"; 4000].join(","));
    let no_list = r#"{"nodesExt": {}}"#;
    for (json, fault, most) in [
        (&*deep, "$: not JSON", 1),
        (&wrong, "$.nodesExt[0]: must be an object", 100),
        (no_list, "$.nodesExt: must be a list of nodes", 1),
    ] {
        let (status, lines) = config("unbounded.json", json).await;
        assert_eq!(status, 1, "{fault}");
        assert!(lines[0].starts_with(fault), "{lines:?}");
        assert!(lines.len() <= most, "{}", lines.len());
    }
}

/// With several files each has its lines, and one invalid file determines the exit status.
#[tokio::test]
async fn each_file_has_its_own_lines() {
    let good = r#"{"version": 1, "revision": 1, "errors": {}}"#;
    let (good, bad) = (file("good-map.json", good), file("bad-map.json", "{}"));
    let said = run(format!("check --kind error-map --json '{good}' '{bad}'"));
    let said = said.await.says(1);
    let reports = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let reports: Vec<Value> = reports.collect();
    assert_eq!(reports[0]["usable"], true);
    assert_eq!(reports[1]["usable"], false);
    assert_eq!(reports[1]["file"], bad);
}

/// Configurations of real servers from the folder in `REATTEMPT_DATA`, if it is set: none gets a
/// warning. `reattempt-couchbase` reads their error maps.
#[tokio::test]
async fn what_real_servers_sent_can_be_used() {
    let Some(data) = std::env::var_os("REATTEMPT_DATA") else {
        return;
    };
    let data = Path::new(&data).join("couchbase");
    let folders = ["jvm", "gocbcore"].map(|name| std::fs::read_dir(data.join(name)).unwrap());
    let mut checked = 0;
    for entry in folders.into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let config = name.contains("config_") && name.ends_with(".json");
        if !config || name.contains("placeholder") {
            continue;
        }
        let path = path.to_str().unwrap();
        is(check("--kind cluster-config", path).await, 0, ["ok"]);
        checked += 1;
    }
    assert!(checked > 10);
}
