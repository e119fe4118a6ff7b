use std::time::Duration;

use bson::{Document, doc};
use reattempt_clients::mongodb::client::{
    Client, ClientOptions, ReadPreference, ServerDescription, ServerKind, TopologyDescription,
    TopologyKind,
};
use reattempt_testbed::mongodb::{Node, ReplicaSet, Step};

use super::{find, node, options, send, set_options};

#[tokio::test]
async fn a_killed_primary_is_followed_and_comes_back() {
    let set = ReplicaSet::start(2).await.unwrap();
    let client = Client::new(set_options(&set));
    send(&client, &find()).await.unwrap();
    set.kill(0).await;
    set.step_down();
    send(&client, &find()).await.unwrap_err();
    let reply = send(&client, &find()).await.unwrap();
    assert_eq!(reply.server, set.nodes()[1].address());
    set.restart(0).await.unwrap();
    let mut secondary = find();
    secondary.read_preference = Some(ReadPreference::Secondary);
    let reply = send(&client, &secondary).await.unwrap();
    assert_eq!(reply.server, set.nodes()[0].address());
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

/// A primary of a set of this member.
fn primary(member: &Node) -> Document {
    doc! {
        "ok": 1, "setName": "s", "isWritablePrimary": true, "maxWireVersion": 21,
        "hosts": [member.address()],
    }
}

fn says(node: &Node, hello: &Document) {
    for _ in 0..1000 {
        node.script().on("hello", Step::reply(hello.clone()));
    }
}

/// How often a node is looked at in a second in which checks are asked for all the time.
async fn looks_in_a_second(mut options: ClientOptions, nodes: &[Node]) -> usize {
    options.min_heartbeat = Duration::from_millis(300);
    let client = Client::new(options);
    let requests = async {
        loop {
            client.topology().request_checks();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let second = Duration::from_millis(1000);
    tokio::time::timeout(second, requests).await.unwrap_err();
    let looks = nodes.iter().map(|node| node.seen_named("hello").len());
    looks.sum()
}

/// Each of them sends the client to the other, where it has no server left.
#[tokio::test]
async fn seeds_that_are_watched_again_are_not_checked_at_once() {
    let (first, second) = (node().await, node().await);
    says(&first, &primary(&second));
    let wrong = doc! { "ok": 1, "setName": "t", "secondary": true, "maxWireVersion": 21 };
    says(&second, &wrong);
    let looks = looks_in_a_second(options(&first), &[first]).await;
    assert!((2..=4).contains(&looks), "{looks}");
}

/// Each removes the other, which then is new again.
#[tokio::test]
async fn two_primaries_that_name_each_other_set_no_pace() {
    let nodes = [node().await, node().await];
    for (at, node) in nodes.iter().enumerate() {
        says(node, &primary(&nodes[1 - at]));
    }
    let looks = looks_in_a_second(options(&nodes[0]), &nodes).await;
    assert!((2..=24).contains(&looks), "{looks}");
}

/// Servers refuse a client that says who it is twice on one connection (code 186).
#[tokio::test]
async fn checks_of_a_healthy_server_share_a_connection() {
    let node = node().await;
    let mut options = options(&node);
    options.heartbeat_frequency = Duration::from_millis(1);
    options.min_heartbeat = Duration::from_millis(1);
    let client = Client::new(options);
    let looks = node.until_seen("hello", 5).await;
    drop(client);
    for (at, look) in looks.iter().enumerate() {
        assert_eq!(look.connection, looks[0].connection, "{at}");
        assert_eq!(look.document.contains_key("client"), at == 0, "{at}");
    }
}

/// It may be hours behind.
#[test]
fn a_hidden_member_is_no_secondary() {
    let hello = doc! { "setName": "s", "secondary": true, "hidden": true };
    let found = ServerDescription::from_hello("a:1", &hello);
    assert_eq!(found.kind, ServerKind::OtherMember);
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
    // Its election is over.
    assert_eq!(known.servers["a:1"].kind, ServerKind::Unknown);
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
        let suitable = known.suitable(mode, &avoid).into_iter();
        suitable
            .map(|server| server.address.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(choose(ReadPreference::Primary, &[]), ["a:1"]);
    assert_eq!(choose(ReadPreference::Primary, &["a:1"]), ["a:1"]);
    assert_eq!(choose(ReadPreference::PrimaryPreferred, &["a:1"]), ["b:1"]);
    assert_eq!(choose(ReadPreference::Secondary, &["b:1"]), ["b:1"]);
    let preferred = choose(ReadPreference::SecondaryPreferred, &["b:1"]);
    assert_eq!(preferred, ["a:1"]);
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
    // A primary is believed.
    assert!(known.servers.keys().eq(["a:1", "b:1"]));
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
fn a_standalone_that_is_named_twice_is_found() {
    let seeds = ["a:1", "a:1"].map(str::to_owned);
    let mut known = TopologyDescription::new(&seeds, None, false);
    known.apply(ServerDescription::from_hello("a:1", &doc! { "ok": 1 }));
    assert_eq!(known.kind, TopologyKind::Single);
    assert_eq!(known.suitable(ReadPreference::Primary, &[]).len(), 1);
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
