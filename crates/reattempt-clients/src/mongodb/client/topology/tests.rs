use bson::doc;
use bson::spec::BinarySubtype;
use bson::{Binary, Timestamp};

use super::*;

const FIRST: &str = "127.0.0.1:1";
const SECOND: &str = "127.0.0.1:2";

/// A topology whose monitors do nothing until the test waits for something.
fn topology() -> Topology {
    let topology = Topology::new(ClientOptions::new([FIRST]));
    primary_lists(&topology, &[FIRST, SECOND]);
    let hello = doc! { "setName": "s", "secondary": true, "hosts": [FIRST, SECOND] };
    let second = ServerDescription::from_hello(SECOND, &hello);
    topology.inner.seen(second);
    topology
}

fn primary_lists(topology: &Topology, hosts: &[&str]) {
    let hello = doc! { "setName": "s", "isWritablePrimary": true, "hosts": hosts.to_vec() };
    topology
        .inner
        .seen(ServerDescription::from_hello(FIRST, &hello));
}

fn pool(topology: &Topology, address: &str) -> Pool {
    lock(&topology.inner.watched)[address].pool.clone()
}

fn broken() -> MongoError {
    MongoError::Network {
        origin: super::super::Origin {
            server: SECOND.to_owned(),
            max_wire_version: None,
            connection: None,
        },
        during: During::Receive,
        kind: std::io::ErrorKind::ConnectionReset,
        message: String::new(),
        labels: Vec::new(),
    }
}

#[tokio::test]
async fn the_pool_of_a_server_that_is_removed_is_cleared() {
    let topology = topology();
    let removed = pool(&topology, SECOND);
    primary_lists(&topology, &[FIRST]);
    let failed = removed.check_out(None).await.unwrap_err();
    assert!(matches!(failed.error, MongoError::PoolCleared { .. }));
    assert_eq!(pool(&topology, FIRST).generation(), 0);
}

/// The pools of both times begin at the same generation.
#[tokio::test]
async fn a_failure_does_not_reach_a_server_that_came_back() {
    let topology = topology();
    let before = pool(&topology, SECOND);
    topology.on_error(&before, 0, &broken());
    primary_lists(&topology, &[FIRST]);
    primary_lists(&topology, &[FIRST, SECOND]);
    let now = pool(&topology, SECOND);
    topology.on_error(&before, before.generation(), &broken());
    assert_eq!(now.generation(), 0);
    assert_eq!(topology.description().servers[SECOND].error, None);
    topology.on_error(&now, 0, &broken());
    assert_eq!(now.generation(), 1);
    assert!(topology.description().servers[SECOND].error.is_some());
}

fn cluster_time(time: u32, hash: usize, extra: &str) -> Document {
    let hash = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![7; hash],
    };
    let mut signature = doc! { "hash": hash, "keyId": 5_i64 };
    let clock = Timestamp { time, increment: 1 };
    let mut sent = doc! { "clusterTime": clock };
    if !extra.is_empty() {
        signature.insert("junk", extra);
        sent.insert("junk", extra);
    }
    sent.insert("signature", signature);
    sent
}

/// What is kept goes into every command to every server.
#[tokio::test]
async fn only_the_known_members_of_a_cluster_time_are_kept() {
    let topology = topology();
    let saw = |time: Document| topology.saw(&doc! { "ok": 1, "$clusterTime": time });
    saw(cluster_time(1, 20, "x"));
    assert_eq!(topology.cluster_time(), Some(cluster_time(1, 20, "")));
    saw(cluster_time(2, 65, ""));
    let mut unsound = cluster_time(2, 20, "");
    unsound.insert("signature", doc! { "hash": "text", "keyId": 5_i64 });
    saw(unsound);
    saw(doc! { "clusterTime": "2" });
    assert_eq!(topology.cluster_time(), Some(cluster_time(1, 20, "")));
    let unsigned = doc! { "clusterTime": Timestamp { time: 3, increment: 1 } };
    saw(unsigned.clone());
    assert_eq!(topology.cluster_time(), Some(unsigned));
}

/// A terminal and a log show what a server sent as it is.
#[test]
fn control_characters_of_a_server_error_are_escaped() {
    let document = doc! { "ok": 0, "code": 1, "codeName": "N\u{1b}[2J", "errmsg": "a\nb\u{9b}é" };
    let origin = broken().origin().unwrap().clone();
    let error = MongoError::from(super::super::ServerError::read(origin, document, 1, false));
    let text = format!(r"{SECOND}: N\u{{1b}}[2J (1): a\nb\u{{9b}}é");
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn the_error_of_a_selection_has_only_the_start_of_names() {
    let (long, mut options) = ("\u{1b}é".repeat(50_000), ClientOptions::new([FIRST]));
    options.replica_set = Some("own".to_owned());
    options.direct_connection = true;
    let topology = Topology::new(options);
    primary_lists(&topology, &[]);
    let text = topology.description().to_string();
    let wrong = r#"is not of set Some("own") but of Some("s")"#;
    assert_eq!(text, format!("Single, {FIRST} Unknown ({wrong})"));
    let hello = doc! { "setName": &long, "secondary": true };
    let seen = ServerDescription::from_hello(FIRST, &hello);
    topology.inner.seen(seen);
    let text = topology.description().to_string();
    assert!(text.len() < 600 && text.contains("own"), "{text}");
    let mut broken = broken();
    if let MongoError::Network { message, .. } = &mut broken {
        message.clone_from(&long);
    }
    topology.inner.lost(FIRST, &broken);
    let text = topology.description().to_string();
    assert!(text.len() < 600 && !text.contains('\u{1b}'), "{text}");
}

/// One answer may be wrong, or forged.
#[tokio::test]
async fn without_any_server_the_seeds_are_watched_again() {
    let topology = Topology::new(ClientOptions::new([FIRST]));
    let says = |address: &str, hello: Document| {
        let seen = ServerDescription::from_hello(address, &hello);
        topology.inner.seen(seen);
        topology.description()
    };
    says(FIRST, doc! { "msg": "isdbgrid" });
    let known = says(FIRST, doc! { "setName": "s", "secondary": true });
    assert_eq!(known.kind, TopologyKind::Unknown);
    let text = known.to_string();
    assert!(text.contains(&format!("{FIRST} is not of this")), "{text}");
    primary_lists(&topology, &[SECOND]);
    let known = says(SECOND, doc! { "setName": "t", "secondary": true });
    assert!(known.servers.keys().eq([FIRST]), "{known}");
    let known = says(FIRST, doc! { "setName": "t", "isWritablePrimary": true });
    assert_eq!(known.set_name.as_deref(), Some("t"));
    assert_eq!(known.servers[FIRST].kind, ServerKind::Primary);
}
