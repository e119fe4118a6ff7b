use std::time::Duration;

use bytes::Buf as _;
use reattempt_clients::kv::{Connection, KvRequest, KvResponse, LookupSpec};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_testbed::kv::{Node, Step};

use super::{bare, send, set_up};

async fn status_of(connection: &mut Connection, request: KvRequest) -> Status {
    send(connection, request).await.expect("answer").status
}

fn lookups(answer: &KvResponse) -> Vec<(Status, String)> {
    let mut body = answer.value.clone();
    let mut found = Vec::new();
    while body.has_remaining() {
        let (status, length) = (Status(body.get_u16()), body.get_u32() as usize);
        found.push((
            status,
            String::from_utf8_lossy(&body.split_to(length)).into_owned(),
        ));
    }
    found
}

#[tokio::test]
async fn lookup_in_reads_paths() {
    let node = Node::start().await.expect("node");
    node.store().put("k", r#"{"a":{"b":[1,{"c":"d"}]}}"#);
    let mut c = set_up(&node).await;
    let get = |path: &str| LookupSpec::Get(path.to_owned());
    let specs = [
        get("a.b[1].c"),
        get("a.b[-1]"),
        LookupSpec::Count("a.b".to_owned()),
    ];
    let answer = send(&mut c, KvRequest::lookup_in("k", specs))
        .await
        .expect("lookup");
    assert!(answer.is_success());
    let texts = [r#""d""#, r#"{"c":"d"}"#, "2"].map(|text| (Status::SUCCESS, text.to_owned()));
    assert_eq!(lookups(&answer), texts);
    let specs = [
        LookupSpec::Exists("a".to_owned()),
        LookupSpec::Exists("z".to_owned()),
    ];
    let answer = send(&mut c, KvRequest::lookup_in("k", specs))
        .await
        .expect("lookup");
    assert_eq!(answer.status, Status::SUBDOC_MULTI_PATH_FAILURE);
    assert_eq!(
        lookups(&answer),
        [
            (Status::SUCCESS, String::new()),
            (Status::SUBDOC_PATH_ENOENT, String::new())
        ]
    );
    assert_eq!(
        status_of(&mut c, KvRequest::lookup_in("k", [])).await,
        Status::SUBDOC_INVALID_COMBO
    );
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
    let found = send(&mut c, KvRequest::get_collection_id("inventory.hotels"))
        .await
        .expect("id");
    assert_eq!(found.collection_id(), Some(0x555));
    for (path, expected) in [
        ("inventory.none", Status::UNKNOWN_COLLECTION),
        ("none.none", Status::UNKNOWN_SCOPE),
        ("none", Status::EINVAL),
        ("_default._default", Status::SUCCESS),
    ] {
        assert_eq!(
            status_of(&mut c, KvRequest::get_collection_id(path)).await,
            expected
        );
    }
    let there = KvRequest::set("k", "hotel", 0, 0).in_collection(0x555);
    assert_eq!(status_of(&mut c, there).await, Status::SUCCESS);
    assert_eq!(
        status_of(&mut c, KvRequest::get("k")).await,
        Status::KEY_ENOENT
    );
    let seen = node.seen_data();
    let set = seen
        .iter()
        .find(|request| request.opcode == Opcode::SET)
        .expect("set");
    assert_eq!((&set.key[..], set.collection), (&b"k"[..], Some(0x555)));
    node.set_collection("inventory.hotels", None);
    let gone = send(&mut c, KvRequest::get("k").in_collection(0x555))
        .await
        .expect("get");
    assert_eq!(gone.status, Status::UNKNOWN_COLLECTION);
    let context = gone.error_context.expect("context").context.expect("text");
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
    let throttled = send(&mut c, KvRequest::get("k")).await.expect("answer");
    assert_eq!(throttled.status, Status::EWOULD_THROTTLE);
    let heard = throttled.throttle_duration.expect("throttle duration");
    assert!(heard.abs_diff(pause) < pause / 50, "{heard:?}");
    assert!(throttled.server_duration.is_some());
    let full = send(&mut c, KvRequest::get("k")).await.expect("answer");
    let context = full.error_context.expect("context");
    assert_eq!(
        (context.context.as_deref(), context.reference.as_deref()),
        (Some("full"), Some("r1"))
    );
    assert_eq!(full.throttle_duration, None);
    assert_eq!(
        status_of(&mut c, KvRequest::get("k")).await,
        Status::KEY_ENOENT
    );
    assert_eq!(node.script().remaining(), 0);
}

/// C33: the configuration is sent only to a client that does not have it.
#[tokio::test]
async fn the_configuration_is_asked_for_with_the_version_known() {
    let cluster = reattempt_testbed::kv::Cluster::start(2)
        .await
        .expect("cluster");
    let mut c = set_up(cluster.node(0)).await;
    let ask = |known| KvRequest::get_cluster_config(known);
    let latest = send(&mut c, ask(Some((1, 1)))).await.expect("config");
    assert!(latest.is_success() && latest.value.is_empty());
    cluster.bump_rev();
    let newer = send(&mut c, ask(Some((1, 1)))).await.expect("config");
    assert_eq!(newer.value, cluster.node(0).config_json());
    assert_eq!(c.cluster_config_json(), Some(newer.value));
    cluster.set_revision(2, 1);
    assert!(
        !send(&mut c, ask(Some((1, 99))))
            .await
            .expect("config")
            .value
            .is_empty()
    );
    assert!(
        !send(&mut c, ask(None))
            .await
            .expect("config")
            .value
            .is_empty()
    );
}
