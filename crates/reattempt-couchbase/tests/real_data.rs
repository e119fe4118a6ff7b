//! Real error maps, configurations and error bodies of servers, if available: `REATTEMPT_DATA`
//! names a folder whose `couchbase` folder contains them. Without it these tests pass without
//! reading anything.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use reattempt::Verdict;
use reattempt_couchbase::cluster_config::Service;
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::service::HttpService;
use reattempt_couchbase::{Address, ClusterConfig, ErrorMap, Network, Revision};

fn folder() -> Option<PathBuf> {
    Some(Path::new(&std::env::var_os("REATTEMPT_DATA")?).join("couchbase"))
}

fn json_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("json")))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// C16 C23 C25
#[test]
fn every_error_map_that_a_server_ever_sent_is_read_whole() {
    let Some(folder) = folder() else { return };
    let mut files = json_files(&folder);
    files.extend(json_files(&folder.join("gocbcore")));
    files.retain(|(name, _)| name.contains("err") && name.contains("map"));
    assert!(files.len() > 10);
    for (name, json) in files {
        let map = ErrorMap::parse(&json).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(map.faults().is_empty(), "{name}: {:?}", map.faults());
        assert!(map.len() > 40, "{name}");
        let unknown: Vec<_> = (0..0x7000)
            .filter(|status| map.get(*status).is_some() && !Status(*status).is_known())
            .collect();
        assert!(unknown.is_empty(), "{name}: a new status {unknown:x?}");
        let with_specs =
            (0x7ff0..=0x7ff2).filter(|s| map.get(*s).is_some_and(|e| e.retry_spec().is_some()));
        let expected = if name.starts_with("couchbasemock") {
            3
        } else {
            0
        };
        assert_eq!(with_specs.count(), expected, "{name}");
    }
}

/// C50
#[test]
fn every_configuration_is_read_and_routes_every_vbucket_it_can() {
    let Some(folder) = folder() else { return };
    let mut files = json_files(&folder.join("jvm"));
    files.extend(
        json_files(&folder.join("gocbcore"))
            .into_iter()
            .filter(|(name, _)| name.starts_with("bucket_config")),
    );
    assert!(files.len() > 20);
    for (name, json) in files {
        if name.contains("rev_placeholder") {
            assert!(ClusterConfig::parse(&json, "h").is_err(), "a template");
            continue;
        }
        let config =
            ClusterConfig::parse(&json, "10.1.1.1").unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            config.nodes().iter().all(|node| node.hostname() != "$HOST"),
            "{name}"
        );
        let kv = config.addresses(Service::Kv, false, &Network::Default);
        assert!(kv.count() > 0, "{name}");
        if let Some(map) = config.vbuckets() {
            assert!(map.len().is_power_of_two(), "{name}");
            let routed = (0..map.len()).all(|vbucket| {
                let node = map.node(u16::try_from(vbucket).unwrap(), 0);
                node.is_some_and(|node| node < config.nodes().len())
            });
            assert!(routed || name.contains("partitions"), "{name}");
        }
    }
}

/// C50
#[test]
fn the_revisions_of_one_bucket_are_in_order() {
    let Some(folder) = folder() else { return };
    let revision = |name: &str| {
        let json = fs::read(folder.join("jvm").join(name)).unwrap();
        ClusterConfig::parse(&json, "h").unwrap().revision()
    };
    let higher_epoch = revision("config_lower_rev_higher_epoch.json");
    let lower_epoch = revision("config_higher_rev_lower_epoch.json");
    assert!(higher_epoch > lower_epoch);
    assert!(revision("config_higher_rev_higher_epoch.json") > higher_epoch);
    assert!(lower_epoch > revision("config_higher_rev_no_epoch.json"));
    assert!(
        revision("config_higher_rev_no_epoch.json") > revision("config_lower_rev_no_epoch.json")
    );
    assert!(revision("config_lower_rev_no_epoch.json") > Revision::default());
}

#[test]
fn a_client_outside_finds_the_external_network() {
    let Some(folder) = folder() else { return };
    let json = fs::read(folder.join("jvm/config_with_external.json")).unwrap();
    let config = ClusterConfig::parse(&json, "h").unwrap();
    let network = config.network_of(&Address::new("192.168.132.234", 32775));
    assert_eq!(network, Network::external());
    let kv = config.addresses(Service::Kv, false, &network).count();
    assert_eq!(kv, config.nodes().len());
    let inside = config.network_of(&Address::new("172.17.0.2", 11210));
    assert_eq!(inside, Network::Default);
}

/// The expected verdicts on the first error of a real body, by RFC 0049's list and with the current
/// server codes: from the error code in the file's name, or from what is known of the file.
fn expected(name: &str) -> (bool, bool) {
    match name {
        "failure_prepared_4040.json"
        | "failure_prepared_4050.json"
        | "failure_prepared_4070.json" => (true, true),
        // The option's codes, and errors that the service itself marks as retryable.
        "failure_prepared_4060.json"
        | "failure_prepared_4080.json"
        | "failure_prepared_4090.json"
        | "failure_index_not_found_12004.json"
        | "failure_index_not_found_5000.json"
        | "query_failure_retry_true.json" => (false, true),
        _ => (false, false),
    }
}

/// C41 C42 C43
#[test]
fn every_error_of_the_query_service_is_read() {
    let Some(folder) = folder() else { return };
    // Lists of errors without the surrounding response.
    let lists = json_files(&folder.join("jvm_query"))
        .into_iter()
        .map(|(name, list)| {
            let answer = [b"{\"results\": [], \"errors\": ", &list[..], b"}"].concat();
            (name, answer)
        });
    let whole = json_files(&folder.join("gocbcore"))
        .into_iter()
        .filter(|(name, _)| name.starts_with("query_"));
    let files: Vec<_> = lists.chain(whole).collect();
    assert!(files.len() > 30);
    for (name, body) in files {
        let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let first = &parsed["errors"][0];
        for (service, again) in [
            (HttpService::query(), expected(&name).0),
            (
                HttpService::query().with_current_server_codes(),
                expected(&name).1,
            ),
        ] {
            let error = service.read_error(http::StatusCode::OK, &body);
            if name == "failure_empty_list.json" {
                assert_eq!(error, None);
                continue;
            }
            let error = error.unwrap();
            assert_eq!(
                error.code().map(i64::from),
                first["code"].as_i64(),
                "{name}"
            );
            assert_eq!(error.message(), first["msg"].as_str(), "{name}");
            assert_eq!(error.says_retry(), first["retry"] == true, "{name}");
            let verdict = service.verdict_on(http::StatusCode::OK, &body);
            assert_eq!(
                matches!(verdict, Verdict::Retry(_)),
                again,
                "{name} {verdict:?}"
            );
            assert!(verdict.failure().is_some(), "{name}");
        }
    }
}
