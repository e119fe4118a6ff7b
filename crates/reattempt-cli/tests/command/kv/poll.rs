//! The frequency of configuration polls.

use reattempt_testbed::kv::node::{FEATURE_COLLECTIONS, FEATURE_XERROR};
use reattempt_testbed::kv::{Cluster, Node, Step, opcode};
use serde_json::{Value, json};

use super::*;
use crate::{answers, each, with};

/// One call; connections stay open for this long.
fn lingering(cluster: &Cluster, interval_ms: Value, linger_ms: u64) -> Value {
    let document = seeded(cluster, json!([get()]));
    let document = with(document, "config_poll_interval_ms", interval_ms);
    with(document, "linger_ms", json!(linger_ms))
}

/// All configuration requests on all nodes, in order of arrival: the node, the time, and whether
/// the request names a known revision.
fn asked(cluster: &Cluster) -> Vec<(usize, tokio::time::Instant, bool)> {
    let mut asked: Vec<_> = cluster
        .nodes()
        .iter()
        .enumerate()
        .flat_map(|(n, node)| {
            let seen = seen(node, opcode::GET_CLUSTER_CONFIG);
            seen.into_iter()
                .map(move |seen| (n, seen.arrived, !seen.extras.is_empty()))
        })
        .collect();
    asked.sort_by_key(|(_, arrived, _)| *arrived);
    asked
}

/// Asserts this minimum interval between requests, with a tolerance for one that is seen late.
#[track_caller]
fn assert_apart(asked: &[(usize, tokio::time::Instant, bool)], ms: u64) {
    let span = asked[asked.len() - 1].1 - asked[0].1;
    let least = millis(ms * (asked.len() as u64 - 1));
    assert!(span + millis(60) >= least, "{asked:?}");
}

/// C47: one during bootstrap, and one for each interval.
#[tokio::test]
async fn every_interval_one_node_is_asked_once() {
    let cluster = Cluster::start(1).await.unwrap();
    answers(lingering(&cluster, json!(100), 950)).await;
    let asked = asked(&cluster);
    assert!(asked.len() >= 6, "{asked:?}");
    assert_eq!(
        cluster.node(0).connections(),
        1,
        "over the connection that there is"
    );
    assert_apart(&asked[1..], 100);
    assert!(
        asked[1..].iter().all(|(_, _, known)| *known),
        "with the revision that is known"
    );
}

/// C48: round robin.
#[tokio::test]
async fn each_poll_asks_the_next_node() {
    let cluster = Cluster::start(3).await.unwrap();
    answers(lingering(&cluster, json!(100), 1250)).await;
    let asked = asked(&cluster);
    let nodes: Vec<_> = asked.iter().map(|(node, ..)| *node).collect();
    // The earlier ones are those of the bootstrap of the seed and of the key's node.
    let polls = &nodes[nodes.len() - 6..];
    assert!(
        polls.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 3),
        "{nodes:?}"
    );
    let connections: Vec<_> = cluster.nodes().iter().map(Node::connections).collect();
    assert_eq!(connections, [1, 1, 1]);
}

/// C47: the default interval is 2.5 s.
#[tokio::test]
async fn by_default_nothing_is_asked_in_the_first_two_seconds() {
    let cluster = Cluster::start(1).await.unwrap();
    answers(lingering(&cluster, Value::Null, 1500)).await;
    assert_eq!(configs(cluster.node(0)), 1);
}

/// C47: a floor above the interval also bounds polls, and skips none of them.
#[tokio::test]
async fn no_poll_is_more_often_than_the_floor() {
    let cluster = Cluster::start(1).await.unwrap();
    let document = with(
        lingering(&cluster, json!(5), 900),
        "config_poll_floor_ms",
        json!(150),
    );
    answers(document).await;
    let asked = asked(&cluster);
    assert!(asked.len() >= 4, "{asked:?}");
    assert_apart(&asked[1..], 150);
}

/// C47: one poll for many errors within the floor, besides the one of the bootstrap.
#[tokio::test]
async fn errors_within_the_floor_ask_once() {
    let map = r#"{"version": 2, "revision": 1, "errors": {"ff0": {"attrs": ["fetch-config"]}}}"#;
    for (floor, expected) in [(60_000, 2..=2), (0, 3..=21)] {
        let node = Node::builder().error_map(map).start().await.unwrap();
        node.script().repeat(&Step::status(0xff0), 20);
        let calls: Vec<_> = std::iter::repeat_n(get(), 20).collect();
        let document = with(
            several(&node, json!(calls)),
            "config_poll_floor_ms",
            json!(floor),
        );
        answers(with(document, "linger_ms", json!(200))).await;
        assert!(
            expected.contains(&configs(&node)),
            "{floor}: {}",
            configs(&node)
        );
    }
}

/// C49 C50: a poll finds a configuration that no response carried.
#[tokio::test]
async fn a_poll_brings_the_newer_configuration() {
    let cluster = Cluster::start(2).await.unwrap();
    let late = json!({"op": "noop", "start_delay_ms": 600, "timeout_ms": 20_000});
    let document = seeded(&cluster, json!([get(), late]));
    let running = tokio::spawn(answers(with(
        document,
        "config_poll_interval_ms",
        json!(100),
    )));
    tokio::time::sleep(millis(150)).await;
    cluster.move_vbuckets(0, 1);
    let (epoch, rev) = cluster.revision();
    let answers = running.await.unwrap();
    assert_eq!(
        answers[1]["config_revision"],
        json!([epoch, rev]),
        "{answers:?}"
    );
    assert_eq!(each(&answers[1], "n"), [1]);
}

/// The known revision is sent only to a node that supports it.
#[tokio::test]
async fn the_known_revision_is_for_who_agreed_to_it() {
    let features = [FEATURE_XERROR, FEATURE_COLLECTIONS];
    let cluster = Cluster::builder()
        .features(&features)
        .start_cluster(1)
        .await
        .unwrap();
    answers(lingering(&cluster, json!(60), 300)).await;
    let asked = asked(&cluster);
    assert!(
        asked.len() > 2 && asked.iter().all(|(_, _, known)| !known),
        "{asked:?}"
    );
}
