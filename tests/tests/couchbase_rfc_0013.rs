//! RFC 0013, the KV error map, on the wire. Rule numbers are those of
//! docs/conformance/couchbase.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt::StopReason;
use reattempt::reason::{KV_ERROR_MAP_RETRY_INDICATED, KV_TEMPORARY_FAILURE};
use reattempt_couchbase::cluster_config::ConfigPollerOptions;
use reattempt_couchbase::{Address, ConfigPoller, ErrorMapStrategy, ErrorMaps, Revision};
use reattempt_testbed::kv::client::KvRequest;
use reattempt_testbed::kv::node::NodeBuilder;
use reattempt_testbed::kv::{self, Cluster, Step, opcode, status};
use reattempt_tests::kv::{Client, data, until};

/// A cluster whose nodes send this map.
async fn with_map(map: impl Into<bytes::Bytes>) -> Cluster {
    start(Cluster::builder().error_map(map)).await
}

async fn start(builder: NodeBuilder) -> Cluster {
    builder.start_cluster(1).await.expect("a cluster")
}

/// A map with one entry, for 0xff01.
fn map(entry: &str) -> String {
    format!(r#"{{"version":2,"revision":1,"errors":{{"ff01":{entry}}}}}"#)
}

fn attributes(attributes: &[&str]) -> String {
    let entry = serde_json::json!({"name": "X", "desc": "x", "attrs": attributes});
    map(&entry.to_string())
}

/// How often a read is sent that gets this status once.
async fn sent(cluster: &Cluster, status: u16) -> usize {
    let client = Client::of(cluster);
    cluster.node(0).script().push(Step::status(status));
    let ended = client.call(KvRequest::get("k")).await;
    let sent = data(cluster, 0).len();
    let expected = if sent == 1 {
        status
    } else {
        status::KEY_ENOENT
    };
    assert_eq!(ended.status(), expected);
    sent
}

/// C25: version 2 is requested, after HELLO and before authentication.
#[tokio::test]
async fn the_map_is_fetched_while_the_connection_is_set_up() {
    let cluster = Cluster::start(1).await.expect("a cluster");
    Client::of(&cluster).call(KvRequest::get("k")).await;
    let seen = cluster.node(0).seen();
    let operations: Vec<u8> = seen.iter().map(|request| request.opcode).collect();
    assert_eq!(operations[..2], [opcode::HELLO, opcode::GET_ERROR_MAP]);
    assert_eq!(seen[1].value, [0, 2][..]);
    assert!(operations[2..].contains(&opcode::SASL_AUTH));
    let asked = |operation: &&u8| **operation == opcode::GET_ERROR_MAP;
    assert_eq!(operations.iter().filter(asked).count(), 1);
}

/// C16: the client's own table takes precedence over the map.
#[tokio::test]
async fn a_known_status_beats_the_map() {
    let cluster = with_map(
        r#"{"version":2,"revision":1,"errors":{
        "82":{"name":"ENOMEM","desc":"","attrs":["temp","retry-later"]},
        "1":{"name":"KEY_ENOENT","desc":"","attrs":["retry-now"]},
        "86":{"name":"ETMPFAIL","desc":"","attrs":["no-retry"]}}}"#,
    )
    .await;
    assert_eq!(sent(&cluster, status::ENOMEM).await, 1);
    let client = Client::of(&cluster);
    assert_eq!(
        client.call(KvRequest::get("k")).await.status(),
        status::KEY_ENOENT
    );
    cluster
        .node(0)
        .script()
        .push(Step::status(status::ETMPFAIL));
    let ended = client.call(KvRequest::get("k")).await;
    assert_eq!(ended.info.count(KV_TEMPORARY_FAILURE), 1);
    assert_eq!(ended.info.attempts(), 2);
}

/// C17, C18, C21
#[tokio::test]
async fn of_an_unknown_status_its_attributes_decide() {
    for (given, expected) in [
        (&["retry-now"][..], 2),
        (&["retry-later"], 2),
        (&["auto-retry"], 2),
        (&["temp", "retry-later", "of-tomorrow"], 2),
        (&["temp"], 1),
        (&["item-only"], 1),
        (&[], 1),
        (&["retry-now", "no-retry"], 1),
        (&["no-retry", "retry-later", "auto-retry"], 1),
    ] {
        let cluster = with_map(attributes(given)).await;
        assert_eq!(sent(&cluster, 0xff01).await, expected, "{given:?}");
    }
}

/// C17: also for writes, because the server has done nothing.
#[tokio::test]
async fn a_retry_that_the_map_indicates_is_for_every_operation() {
    let cluster = with_map(attributes(&["retry-now"])).await;
    cluster.node(0).script().push(Step::status(0xff01));
    let ended = Client::of(&cluster)
        .call(KvRequest::set("k", "v", 0, 0))
        .await;
    assert_eq!(ended.status(), 0);
    assert_eq!(ended.reasons(), [KV_ERROR_MAP_RETRY_INDICATED]);
}

/// C23, C18: the connection works without a map.
#[tokio::test]
async fn what_is_no_map_is_ignored_and_the_connection_goes_on() {
    let no_maps = [
        Cluster::builder().error_map("{\"version\":2,"),
        Cluster::builder().error_map(&b"\xff\xfe\x00"[..]),
        Cluster::builder().error_map("[]"),
        Cluster::builder().error_map(r#"{"version":2,"revision":1}"#),
        Cluster::builder().error_map(""),
        Cluster::builder().no_error_map(),
    ];
    for builder in no_maps {
        let cluster = start(builder).await;
        assert_eq!(sent(&cluster, 0xff01).await, 1);
        assert_eq!(cluster.node(0).connections(), 1);
    }
}

/// C23, C24: the rest of the map is used.
#[tokio::test]
async fn a_malformed_entry_is_skipped() {
    let cluster = with_map(
        r#"{"version":2,"revision":1,"errors":{
        "zz":{"name":"X","desc":"","attrs":["retry-now"]},
        "ff02":{"name":"X","desc":"","attrs":"retry-now"},
        "fffff":{"name":"X","desc":"","attrs":["retry-now"]},
        "00FF01":{"name":"X","desc":"","attrs":["retry-now"]}}}"#,
    )
    .await;
    assert_eq!(sent(&cluster, 0xff01).await, 2);
    let client = Client::of(&cluster);
    cluster.node(0).script().push(Step::status(0xff02));
    let ended = client.call(KvRequest::get("k")).await;
    assert_eq!(ended.status(), 0xff02);
    assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
}

/// C23, C24, C26: with a map of any shape the connection works, and the readable parts apply.
#[tokio::test]
async fn of_a_map_of_any_shape_what_can_be_read_counts() {
    let again = r#"{"attrs":["retry-now"]}"#;
    let retry = |spec: &str| map(&format!(r#"{{"attrs":["auto-retry"],"retry":{spec}}}"#));
    let large = format!("{}{}", map(again), " ".repeat(1 << 20));
    for (shape, text, expected) in [
        ("no name, no description", map(again), 2),
        ("no attributes", map(r#"{"name":"X","desc":"x"}"#), 1),
        ("attributes by their numbers", map(r#"{"attrs":[10]}"#), 1),
        ("an entry that is a list", map(r#"["retry-now"]"#), 1),
        ("an entry that is null", map("null"), 1),
        (
            "an upper case attribute",
            map(r#"{"attrs":["RETRY-NOW"]}"#),
            1,
        ),
        (
            "errors as a list",
            r#"{"version":2,"revision":1,"errors":[]}"#.into(),
            1,
        ),
        (
            "no version",
            format!(r#"{{"errors":{{"ff01":{again}}}}}"#),
            2,
        ),
        (
            "a version in words",
            map(again).replace(":2,", ":\"2\","),
            1,
        ),
        (
            "a negative revision",
            map(again).replace("\"revision\":1", "\"revision\":-1"),
            1,
        ),
        ("more than is read", large, 1),
        ("too deep", "[".repeat(100_000), 1),
        ("text behind it", format!("{} x", map(again)), 1),
        (
            "the same twice",
            map(&format!(r#"{again},"FF01":{{"attrs":[]}}"#)),
            2,
        ),
        ("a specification that is a list", retry("[]"), 2),
        ("no strategy", retry(r#"{"interval":1,"after":1}"#), 2),
        (
            "a strategy of tomorrow",
            retry(r#"{"strategy":"x","interval":1,"after":1}"#),
            2,
        ),
        (
            "no interval",
            retry(r#"{"strategy":"linear","after":1}"#),
            2,
        ),
        (
            "a negative delay",
            retry(r#"{"strategy":"linear","interval":1,"after":-1}"#),
            2,
        ),
    ] {
        let cluster = with_map(text.clone()).await;
        assert_eq!(sent(&cluster, 0xff01).await, expected, "{shape}");
        assert_eq!(cluster.node(0).connections(), 1, "{shape}");
        // Best effort replaces a specification that cannot be read.
        if expected == 2 {
            cluster.node(0).script().push(Step::status(0xff01));
            let ended = by_the_map(&cluster).call(KvRequest::get("k")).await;
            assert_eq!(ended.delays(), [1], "{shape}");
        }
    }
}

/// C19, C20, C39: further effects of an unknown status, by the map; and the known statuses that
/// close the connection.
#[tokio::test]
async fn some_answers_cost_the_connection() {
    for (attrs, status, attempts, connections) in [
        (&["conn-state-invalidated"][..], 0xff01, 1, 2),
        (&["special-handling"], 0xff01, 1, 2),
        (&["conn-state-invalidated", "retry-now"], 0xff01, 2, 2),
        (
            &["special-handling", "auto-retry", "no-retry"],
            0xff01,
            1,
            2,
        ),
        (&["auth", "internal", "support"], 0xff01, 1, 1),
        (&["retry-now"], 0xff01, 2, 1),
        (&["conn-state-invalidated"], status::EINTERNAL, 1, 2),
        (&[], status::NO_BUCKET, 1, 2),
        (&[], 0x25, 1, 2),
        (&[], status::AUTH_STALE, 1, 2),
        (&[], status::ETMPFAIL, 2, 1),
    ] {
        let cluster = with_map(attributes(attrs)).await;
        let client = Client::of(&cluster);
        cluster.node(0).script().push(Step::status(status));
        let first = client.call(KvRequest::get("k")).await;
        assert_eq!(first.info.attempts(), attempts, "{attrs:?} {status:#x}");
        assert_eq!(client.call(KvRequest::noop()).await.status(), 0);
        let made = cluster.node(0).connections();
        assert_eq!(made, connections, "{attrs:?} {status:#x}");
    }
}

/// C19: whether or not the request is retried.
#[tokio::test]
async fn the_map_may_ask_for_a_configuration() {
    for (attrs, attempts, asked) in [
        (&["fetch-config"][..], 1, 1),
        (&["fetch-config", "retry-now"], 2, 1),
        (&["fetch-config", "no-retry", "retry-now"], 1, 1),
        (&["retry-now"], 2, 0),
    ] {
        let cluster = with_map(attributes(attrs)).await;
        let client = Client::of(&cluster);
        let fetches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&fetches);
        let fetch = move |_: Address, _: Option<Revision>| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(None))
        };
        let options = ConfigPollerOptions::new().interval(Duration::from_secs(3600));
        assert_eq!(client.call(KvRequest::noop()).await.status(), 0);
        let poller = ConfigPoller::spawn(client.store.clone(), fetch, options);
        let client = client.config_poll(&poller);
        cluster.node(0).script().push(Step::status(0xff01));
        let ended = client.call(KvRequest::get("k")).await;
        assert_eq!(ended.info.attempts(), attempts, "{attrs:?}");
        until(|| fetches.load(Ordering::SeqCst) == asked).await;
    }
}

/// C25
#[tokio::test]
async fn a_map_of_another_version_is_used_as_far_as_it_is_understood() {
    for version in [1, 2, 9] {
        let text =
            attributes(&["retry-now"]).replace("\"version\":2", &format!("\"version\":{version}"));
        let cluster = with_map(text).await;
        assert_eq!(sent(&cluster, 0xff01).await, 2, "version {version}");
    }
}

/// C22: each response is classified by the map of its own connection.
#[tokio::test]
async fn maps_do_not_cross_between_nodes() {
    let cluster = Cluster::start(2).await.expect("a cluster");
    let of_second = Step::status(status::SUCCESS)
        .body(attributes(&["item-only"]))
        .only(opcode::GET_ERROR_MAP);
    cluster.node(1).script().push(of_second);
    let client = Client::of(&cluster);
    for (node, expected) in [(0, 2), (1, 1), (0, 2)] {
        let key = cluster.key_of(node, "k").expect("a key");
        cluster.node(node).script().push(Step::status(0xff01));
        let ended = client.call(KvRequest::get(key)).await;
        assert_eq!(ended.info.attempts(), expected, "node {node}");
    }
}

/// C22: a new connection fetches a new map.
#[tokio::test]
async fn a_new_connection_brings_a_new_map() {
    let cluster = with_map(attributes(&["item-only"])).await;
    let client = Client::of(&cluster);
    cluster
        .node(0)
        .script()
        .push(Step::status(0xff01).then_close());
    assert_eq!(client.call(KvRequest::get("k")).await.info.attempts(), 1);
    client.has_lost(&cluster, 0).await;
    let newer = Step::status(status::SUCCESS)
        .body(attributes(&["retry-now"]))
        .only(opcode::GET_ERROR_MAP);
    cluster.node(0).script().push(newer);
    cluster.node(0).script().push(Step::status(0xff01));
    assert_eq!(client.call(KvRequest::get("k")).await.info.attempts(), 2);
}

fn by_the_map(cluster: &Cluster) -> Client {
    let maps = ErrorMaps::new();
    Client::with(cluster, |options| {
        options.on_error_map(kv::keep_in(maps.clone()))
    })
    .strategy(ErrorMapStrategy::new(maps))
}

const LINEAR: &str = r#"{"name":"X","desc":"","attrs":["retry-later"],
    "retry":{"strategy":"linear","interval":3,"after":7,"ceil":8}}"#;

/// C26, C27, C29: only for a strategy that uses it.
#[tokio::test]
async fn the_retry_specification_of_the_node_gives_the_delays() {
    let cluster = with_map(map(LINEAR)).await;
    let script = cluster.node(0).script();
    script.repeat(&Step::status(0xff01), 4);
    script.push(Step::status(status::ETMPFAIL));
    script.push(Step::status(0xff01));
    let ended = by_the_map(&cluster).call(KvRequest::get("k")).await;
    assert_eq!(ended.status(), status::KEY_ENOENT);
    let delays = ended.delays();
    assert_eq!(delays[..4], [7, 3, 6, 8]);
    assert_eq!(delays[5], 7, "another status restarts the count");
}

/// C30
#[tokio::test]
async fn any_other_strategy_uses_its_own_delays() {
    let cluster = with_map(map(LINEAR)).await;
    cluster.node(0).script().repeat(&Step::status(0xff01), 3);
    let ended = Client::of(&cluster).call(KvRequest::get("k")).await;
    assert_eq!(ended.delays(), [1, 2, 4]);
}

/// C28: measured from the first failure.
#[tokio::test]
async fn max_duration_ends_the_retries_with_the_servers_answer() {
    let entry = LINEAR.replace("\"ceil\":8", "\"max-duration\":60");
    let cluster = with_map(map(&entry)).await;
    cluster.node(0).script().repeat(&Step::status(0xff01), 100);
    let ended = by_the_map(&cluster).call(KvRequest::get("k")).await;
    assert_eq!(ended.status(), 0xff01);
    assert_eq!(ended.info.stopped(), Some(StopReason::Strategy));
    // 7 + 3 + 6 + … + 15 = 52, and 18 more would exceed the limit.
    assert!(
        (2..=7).contains(&ended.info.attempts()),
        "{}",
        ended.info.attempts()
    );
}
