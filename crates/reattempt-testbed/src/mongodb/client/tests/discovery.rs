use std::time::Duration;

use bson::doc;
use tokio::time::Instant;

use super::{find, node, options, send, set_options};
use crate::mongodb::client::{
    Client, ClientOptions, MongoError, MongoRequest, ReadPreference, ServerDescription, ServerKind,
    TopologyDescription, TopologyKind,
};
use crate::mongodb::node::Role;
use crate::mongodb::{Node, ReplicaSet, Step};

/// M20, M21: after a step-down the old primary refuses once; the next call finds the new one
/// without waiting for a heartbeat.
#[tokio::test]
async fn after_a_step_down_the_new_primary_is_found_at_once() {
    let set = ReplicaSet::start(3).await.unwrap();
    let client = Client::new(set_options(&set));
    let insert = || MongoRequest::insert_one("db", "c", doc! { "x": 1 });
    assert_eq!(
        send(&client, &insert()).await.unwrap().server,
        set.nodes()[0].address()
    );
    assert_eq!(set.step_down(), Some(1));
    let error = send(&client, &find()).await.unwrap_err();
    assert_eq!(error.code(), Some(13435));
    assert_eq!(error.server(), Some(set.nodes()[0].address()));
    let began = Instant::now();
    let reply = send(&client, &insert()).await.unwrap();
    assert_eq!(reply.server, set.nodes()[1].address());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "no heartbeat was waited for"
    );
    set.elect(None);
    assert_eq!(
        send(&client, &insert()).await.unwrap_err().code(),
        Some(10107)
    );
}

#[tokio::test]
async fn a_killed_primary_is_followed_and_comes_back() {
    let set = ReplicaSet::start(2).await.unwrap();
    let client = Client::new(set_options(&set));
    send(&client, &find()).await.unwrap();
    set.kill(0).await;
    set.step_down();
    send(&client, &find()).await.unwrap_err();
    assert_eq!(
        send(&client, &find()).await.unwrap().server,
        set.nodes()[1].address()
    );
    set.restart(0).await.unwrap();
    let mut secondary = find();
    secondary.read_preference = Some(ReadPreference::Secondary);
    assert_eq!(
        send(&client, &secondary).await.unwrap().server,
        set.nodes()[0].address()
    );
}

#[tokio::test]
async fn a_server_that_knows_only_the_old_hello_is_asked_so() {
    let node = node().await;
    node.script()
        .handler(|seen| (seen.name == "hello").then(|| Step::code(59)));
    send(&Client::new(options(&node)), &find()).await.unwrap();
    assert!(!node.seen_named("isMaster").is_empty());
}

#[tokio::test]
async fn members_are_found_from_one_seed() {
    let set = ReplicaSet::start(3).await.unwrap();
    let mut options = options(&set.nodes()[2]);
    options.replica_set = Some(ReplicaSet::NAME.to_owned());
    let client = Client::new(options);
    assert_eq!(
        send(&client, &find()).await.unwrap().server,
        set.nodes()[0].address()
    );
    assert_eq!(client.topology().description().servers.len(), 3);
}

/// M13: without a suitable server the call fails in time, and reports the state of the servers.
#[tokio::test]
async fn a_selection_fails_in_its_time() {
    let node = node().await;
    let mut options = options(&node);
    options.server_selection_timeout = Duration::from_millis(100);
    options.replica_set = Some("other".to_owned());
    let client = Client::new(options);
    let began = Instant::now();
    let error = send(&client, &find()).await.unwrap_err();
    assert!(matches!(error, MongoError::Selection { .. }), "{error}");
    assert!(!error.was_sent() && error.server().is_none());
    assert!(began.elapsed() >= Duration::from_millis(100));
    let mut request = find();
    request.deadline = Some(Instant::now() + Duration::from_millis(10));
    let began = Instant::now();
    send(&client, &request).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(90));
}

/// E11: the servers to avoid are a hint.
#[tokio::test]
async fn whom_to_avoid_is_passed_over_unless_alone() {
    let store = crate::mongodb::node::Store::new();
    let builder = Node::builder().role(Role::Mongos).store(&store);
    let first = builder.clone().start().await.unwrap();
    let second = builder.start().await.unwrap();
    let client = Client::new(ClientOptions::new([first.address(), second.address()]));
    let mut request = find();
    request.avoid = vec![first.address().to_owned()];
    // Both must be known, or the first to answer would be the only candidate.
    first.until_seen("hello", 1).await;
    second.until_seen("hello", 1).await;
    while client
        .topology()
        .description()
        .servers
        .values()
        .any(|s| s.kind != ServerKind::Mongos)
    {
        tokio::task::yield_now().await;
    }
    for _ in 0..8 {
        assert_eq!(
            send(&client, &request).await.unwrap().server,
            second.address()
        );
    }
    request.avoid.push(second.address().to_owned());
    send(&client, &request).await.unwrap();
}

#[tokio::test]
async fn the_last_clone_ends_the_monitors() {
    let node = node().await;
    let mut options = options(&node);
    options.heartbeat_frequency = Duration::from_millis(1);
    options.min_heartbeat = Duration::from_millis(1);
    let client = Client::new(options);
    let looks = node.until_seen("hello", 3).await.len();
    assert!(looks >= 3);
    node.script().on("hello", Step::hang());
    let hung = node.seen_named("hello").len();
    node.until_seen("hello", hung + 1).await;
    drop(client);
    let looks = node.seen_named("hello").len();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(node.seen_named("hello").len(), looks);
}

fn member(address: &str, role: &str, election: u8, hosts: &[&str]) -> ServerDescription {
    let mut hello = doc! {
        "setName": "s", "hosts": hosts.to_vec(), "me": address,
        "maxWireVersion": 21_i64, "electionId": bson::oid::ObjectId::from_bytes([election; 12]),
    };
    hello.insert(role, true);
    ServerDescription::from_hello(address, &hello)
}

#[test]
fn a_primary_names_the_members_and_ends_the_reign_of_others() {
    let mut known = TopologyDescription::new(&["a:1".to_owned(), "z:1".to_owned()], None, false);
    known.apply(member("a:1", "isWritablePrimary", 1, &["a:1", "b:1"]));
    assert_eq!(known.kind, TopologyKind::ReplicaSet);
    assert_eq!(known.servers.keys().collect::<Vec<_>>(), ["a:1", "b:1"]);
    known.apply(member("b:1", "ismaster", 2, &["a:1", "b:1"]));
    assert_eq!(known.servers["a:1"].kind, ServerKind::Unknown);
    known.apply(member("a:1", "isWritablePrimary", 1, &["a:1", "b:1"]));
    assert_eq!(
        known.servers["a:1"].kind,
        ServerKind::Unknown,
        "its election is over"
    );
    assert_eq!(known.servers["b:1"].kind, ServerKind::Primary);
    let wrong = ServerDescription::from_hello("a:1", &doc! { "setName": "t", "secondary": true });
    known.apply(wrong);
    assert!(!known.servers.contains_key("a:1"));
    known.apply(member("unheard:1", "secondary", 1, &[]));
    assert!(!known.servers.contains_key("unheard:1"));
}

/// E7, E11: servers to avoid are removed before the mode is applied, and used when no other is
/// left.
#[test]
fn modes_choose_among_members() {
    let hosts = ["a:1", "b:1", "c:1"];
    let mut known = TopologyDescription::new(&["a:1".to_owned()], Some("s".to_owned()), false);
    known.apply(member("a:1", "isWritablePrimary", 1, &hosts));
    known.apply(member("b:1", "secondary", 1, &hosts));
    known.apply(member("c:1", "hidden", 1, &hosts));
    let choose = |mode, avoid: &[&str]| {
        let avoid: Vec<String> = avoid.iter().map(|a| (*a).to_owned()).collect();
        known
            .suitable(mode, &avoid)
            .iter()
            .map(|s| s.address.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(choose(ReadPreference::Primary, &[]), ["a:1"]);
    assert_eq!(choose(ReadPreference::Primary, &["a:1"]), ["a:1"]);
    assert_eq!(choose(ReadPreference::PrimaryPreferred, &["a:1"]), ["b:1"]);
    assert_eq!(choose(ReadPreference::Secondary, &["b:1"]), ["b:1"]);
    assert_eq!(
        choose(ReadPreference::SecondaryPreferred, &["b:1"]),
        ["a:1"]
    );
    assert_eq!(choose(ReadPreference::Nearest, &[]), ["a:1", "b:1"]);
}

/// Without a primary nothing is ever removed, and every hello could add fifty names.
#[test]
fn a_member_that_names_new_hosts_does_not_fill_the_memory() {
    let mut known = TopologyDescription::new(&["a:1".to_owned()], Some("rs".to_owned()), false);
    for round in 0..100 {
        let hosts: Vec<_> = (0..50).map(|n| format!("h{round}-{n}:1")).collect();
        let hello = doc! { "setName": "rs", "secondary": true, "hosts": hosts, "ok": 1 };
        known.apply(ServerDescription::from_hello("a:1", &hello));
        assert!(known.servers.len() <= 100, "{}", known.servers.len());
    }
    let hosts = vec!["a:1", "b:1"];
    let hello = doc! { "setName": "rs", "isWritablePrimary": true, "hosts": hosts, "ok": 1 };
    known.apply(ServerDescription::from_hello("a:1", &hello));
    assert!(
        known.servers.keys().eq(["a:1", "b:1"]),
        "a primary is believed"
    );
}

/// A member that was just started does not know its set yet. It must neither be removed nor treated
/// as a member of a set without a name.
#[test]
fn a_member_that_does_not_know_its_set_yet_is_waited_for() {
    let ghost = doc! { "isreplicaset": true, "isWritablePrimary": false, "maxWireVersion": 21 };
    let ghost = || ServerDescription::from_hello("a:1", &ghost);
    for set_name in [None, Some("s".to_owned())] {
        let mut known = TopologyDescription::new(&["a:1".to_owned()], set_name, false);
        for _ in 0..2 {
            known.apply(ghost());
            assert_eq!(known.servers["a:1"].kind, ServerKind::Ghost);
            assert!(known.suitable(ReadPreference::Nearest, &[]).is_empty());
            known.apply(member("a:1", "isWritablePrimary", 1, &["a:1"]));
            assert_eq!(known.suitable(ReadPreference::Primary, &[]).len(), 1);
        }
    }
}

#[test]
fn a_primary_stays_under_the_name_that_its_own_list_has() {
    let mut known = TopologyDescription::new(&["a:1".to_owned()], Some("s".to_owned()), false);
    let mut primary = member("a:1", "isWritablePrimary", 1, &["a:1", "b:1"]);
    primary.me = Some("inside:1".to_owned());
    known.apply(primary);
    assert_eq!(known.servers["a:1"].kind, ServerKind::Primary);
    let mut secondary = member("b:1", "secondary", 1, &["a:1", "b:1"]);
    secondary.me = Some("inside:2".to_owned());
    known.apply(secondary);
    assert!(!known.servers.contains_key("b:1"));
}

#[test]
fn a_primary_that_names_no_election_is_believed() {
    let hosts = ["a:1", "b:1"];
    let mut known = TopologyDescription::new(&["a:1".to_owned()], None, false);
    known.apply(member("a:1", "isWritablePrimary", 2, &hosts));
    let mut other = member("b:1", "isWritablePrimary", 1, &hosts);
    other.election_id = None;
    known.apply(other);
    assert_eq!(known.servers["b:1"].kind, ServerKind::Primary);
    known.apply(member("a:1", "isWritablePrimary", 1, &hosts));
    assert_eq!(known.servers["a:1"].kind, ServerKind::Unknown);
}

#[test]
fn a_flag_may_be_a_number() {
    let hello = |flag: bson::Bson| {
        let hello = doc! { "setName": "s", "isWritablePrimary": flag };
        ServerDescription::from_hello("a:1", &hello).kind
    };
    assert_eq!(hello(1.into()), ServerKind::Primary);
    assert_eq!(hello(1.0.into()), ServerKind::Primary);
    assert_eq!(hello(0.into()), ServerKind::OtherMember);
}
