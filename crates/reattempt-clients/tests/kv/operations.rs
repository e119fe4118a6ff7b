use std::time::Duration;

use bytes::Buf as _;
use reattempt_clients::kv::{Connection, KvRequest, KvResponse, LookupSpec};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_testbed::kv::{Cluster, Node, Step};

use super::{answered, bare, set_up};

async fn gets(connection: &mut Connection, request: KvRequest, status: Status) {
    assert_eq!(answered(connection, request).await.status, status);
}

fn lookups(answer: &KvResponse) -> Vec<(Status, String)> {
    let mut body = answer.value();
    let mut found = Vec::new();
    while body.has_remaining() {
        let (status, length) = (Status(body.get_u16()), body.get_u32() as usize);
        let text = String::from_utf8_lossy(&body[..length]).into_owned();
        body.advance(length);
        found.push((status, text));
    }
    found
}

#[tokio::test]
async fn lookup_in_reads_paths() {
    let node = Node::start().await.expect("node");
    node.store().put("k", r#"{"a":{"b":[1,{"c":"d"}]}}"#);
    let mut c = set_up(&node).await;
    let get = |path: &str| LookupSpec::Get(path.to_owned());
    let count = LookupSpec::Count("a.b".to_owned());
    let specs = [get("a.b[1].c"), get("a.b[-1]"), count];
    let answer = answered(&mut c, KvRequest::lookup_in("k", specs)).await;
    assert!(answer.is_success());
    let texts = [r#""d""#, r#"{"c":"d"}"#, "2"].map(|text| (Status::SUCCESS, text.to_owned()));
    assert_eq!(lookups(&answer), texts);
    let specs = ["a", "z"].map(|path| LookupSpec::Exists(path.to_owned()));
    let answer = answered(&mut c, KvRequest::lookup_in("k", specs)).await;
    assert_eq!(answer.status, Status::SUBDOC_MULTI_PATH_FAILURE);
    let found = [Status::SUCCESS, Status::SUBDOC_PATH_ENOENT];
    assert_eq!(
        lookups(&answer),
        found.map(|status| (status, String::new()))
    );
    let none = KvRequest::lookup_in("k", []);
    gets(&mut c, none, Status::SUBDOC_INVALID_COMBO).await;
}

/// C34
#[tokio::test]
async fn keys_carry_the_collection_and_unknown_ones_are_refused() {
    let node = Node::builder()
        .collection("inventory.hotels", 0x555)
        .start()
        .await
        .expect("node");
    let mut c = set_up(&node).await;
    let found = answered(&mut c, KvRequest::get_collection_id("inventory.hotels")).await;
    assert_eq!(found.collection_id(), Some(0x555));
    for (path, expected) in [
        ("inventory.none", Status::UNKNOWN_COLLECTION),
        ("none.none", Status::UNKNOWN_SCOPE),
        ("none", Status::EINVAL),
        ("_default._default", Status::SUCCESS),
    ] {
        gets(&mut c, KvRequest::get_collection_id(path), expected).await;
    }
    let there = KvRequest::set("k", "hotel", 0, 0).in_collection(0x555);
    gets(&mut c, there, Status::SUCCESS).await;
    gets(&mut c, KvRequest::get("k"), Status::KEY_ENOENT).await;
    let seen = node.seen_data();
    let set = seen.iter().find(|seen| seen.opcode == Opcode::SET);
    let set = set.expect("set");
    assert_eq!((&set.key[..], set.collection), (&b"k"[..], Some(0x555)));
    node.set_collection("inventory.hotels", None);
    let gone = answered(&mut c, KvRequest::get("k").in_collection(0x555)).await;
    assert_eq!(gone.status, Status::UNKNOWN_COLLECTION);
    let context = gone
        .error_context()
        .expect("context")
        .context
        .expect("text");
    assert!(context.contains("0x555"), "{context}");
}

#[tokio::test]
async fn steps_set_status_body_and_durations() {
    let pause = Duration::from_millis(250);
    let node = Node::scripted([
        Step::status(Status::EWOULD_THROTTLE)
            .throttle_duration(pause)
            .server_duration(pause / 10),
        Step::status(Status(0xff01))
            .body(r#"{"error":{"context":"full","ref":"r1"}}"#)
            .datatype(1),
    ])
    .await
    .expect("node");
    let mut c = bare(&node).await;
    let throttled = answered(&mut c, KvRequest::get("k")).await;
    assert_eq!(throttled.status, Status::EWOULD_THROTTLE);
    let heard = throttled.throttle_duration().expect("throttle duration");
    assert!(heard.abs_diff(pause) < pause / 50, "{heard:?}");
    assert!(throttled.server_duration().is_some());
    let full = answered(&mut c, KvRequest::get("k")).await;
    let context = full.error_context().expect("context");
    let said = (context.context.as_deref(), context.reference.as_deref());
    assert_eq!(said, (Some("full"), Some("r1")));
    assert_eq!(full.throttle_duration(), None);
    gets(&mut c, KvRequest::get("k"), Status::KEY_ENOENT).await;
    assert_eq!(node.script().remaining(), 0);
}

/// C33: the configuration is sent only to a client that does not have it.
#[tokio::test]
async fn the_configuration_is_asked_for_with_the_version_known() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let mut c = set_up(cluster.node(0)).await;
    let ask = |known| KvRequest::get_cluster_config(known);
    let latest = answered(&mut c, ask(Some((1, 1)))).await;
    assert!(latest.is_success() && latest.value().is_empty());
    cluster.bump_rev();
    let newer = answered(&mut c, ask(Some((1, 1)))).await;
    assert_eq!(newer.value(), cluster.node(0).config_json());
    assert_eq!(c.cluster_config_json(), Some(newer.into_value()));
    cluster.set_revision(2, 1);
    assert!(
        !answered(&mut c, ask(Some((1, 99))))
            .await
            .value()
            .is_empty()
    );
    assert!(!answered(&mut c, ask(None)).await.value().is_empty());
}
