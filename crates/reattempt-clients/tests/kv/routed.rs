use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt_clients::kv::{
    ClientError, ClientOptions, KvRequest, RoutedClient, VbucketMap, fetch_over, fetch_with,
    map_of, offer_to, vbucket_of,
};
use reattempt_couchbase::cluster_config::Revision;
use reattempt_couchbase::kv::Opcode;
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::{ConfigStore, FetchConfig as _};
use reattempt_testbed::kv::{Cluster, Node, Step};
use tokio::net::TcpListener;
use tower::Service as _;

use super::{answered, couchbase, start, within};

/// A client that applies every newer configuration that it receives.
pub(super) fn client(seeds: &[String]) -> RoutedClient {
    client_with(seeds, couchbase())
}

pub(super) fn client_with(seeds: &[String], options: ClientOptions) -> RoutedClient {
    let store = ConfigStore::new();
    let options = options.on_config(offer_to(store.clone()));
    let seeds = seeds.iter().map(String::as_str);
    RoutedClient::new(seeds, options, map_of(store))
}

/// A client whose map has this one node, until the function gives it another.
pub(super) fn client_that_moves(
    seed: &str,
    options: ClientOptions,
    node: &str,
) -> (RoutedClient, impl Fn(&str)) {
    let current: Arc<Mutex<Arc<VbucketMap>>> = Arc::default();
    let source = Arc::clone(&current);
    let move_to = move |node: &str| {
        let mut current = current.lock().unwrap();
        *current = Arc::new(VbucketMap {
            rev: current.rev + 1,
            nodes: vec![node.to_owned()],
            vbuckets: vec![vec![0]],
            ..VbucketMap::default()
        });
    };
    move_to(node);
    let map = move || Some(source.lock().unwrap().clone());
    (RoutedClient::new([seed], options, map), move_to)
}

pub(super) fn addresses(cluster: &Cluster) -> Vec<String> {
    cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn keys_hash_as_every_client_hashes_them() {
    // CRC32 of "123456789" is 0xcbf43926, its check value.
    assert_eq!(vbucket_of(b"123456789", 1024), (0xcbf4 & 0x7fff) % 1024);
    assert_eq!(vbucket_of(b"123456789", 0), 0);
}

/// Else its node would be another one than that of the configuration.
#[test]
fn a_seed_is_named_as_its_node_is_in_a_configuration() {
    let seeds = ["[2001:db8:0:0::1]:11210", "h1:11210"].map(str::to_owned);
    let named = ["[2001:db8::1]:11210", "h1:11210"];
    assert_eq!(client(&seeds).addresses(), named);
}

/// C48, C49: one that has not agreed to it refuses a request with the known revision.
#[tokio::test]
async fn a_node_without_known_version_is_polled_all_the_same() {
    let node = Node::builder().features(&[]).start().await.expect("node");
    let none = map_of(ConfigStore::new());
    // The first one connects.
    let seeds = [node.addr().to_string()];
    let fetch = fetch_over(RoutedClient::new(seeds, couchbase(), none));
    for known in [None, Some(Revision { epoch: 1, rev: 1 })] {
        let address = node.addr().to_string().parse().unwrap();
        let config = fetch.fetch(address, known).await.unwrap();
        assert!(config.is_some(), "{known:?}");
    }
}

/// C39: no call sees the answer to a poll.
#[tokio::test]
async fn an_answer_to_a_poll_may_cost_the_connection() {
    let node = Node::start().await.expect("node");
    let mut client = client(&[node.addr().to_string()]);
    answered(&mut client, KvRequest::noop()).await;
    let stale = Step::status(Status::AUTH_STALE);
    node.script().push(stale.only(Opcode::GET_CLUSTER_CONFIG));
    let address = node.addr().to_string();
    let fetch = fetch_over(client.clone());
    let polled = fetch.fetch(address.parse().unwrap(), None).await;
    polled.expect_err("no configuration");
    assert!(!client.node(&address).is_connected());
}

#[tokio::test]
async fn a_node_whose_bootstrap_asks_for_no_map_is_polled() {
    let node = Node::start().await.expect("node");
    let fetch = fetch_with(ClientOptions::memcached());
    let address = node.addr().to_string().parse().unwrap();
    assert!(fetch.fetch(address, None).await.unwrap().is_some());
}

/// The bootstrap asks for the configuration.
#[tokio::test]
async fn a_fetch_asks_a_node_once() {
    let node = Node::start().await.expect("node");
    let address = node.addr().to_string();
    let over = fetch_over(client(std::slice::from_ref(&address)));
    let parsed = || address.parse().unwrap();
    let asked = || {
        let seen = node.seen().into_iter();
        seen.filter(|seen| seen.opcode == Opcode::GET_CLUSTER_CONFIG)
            .count()
    };
    let found = fetch_with(couchbase()).fetch(parsed(), None).await.unwrap();
    assert_eq!((found.is_some(), asked()), (true, 1));
    let found = over.fetch(parsed(), None).await.unwrap();
    assert_eq!((found.is_some(), asked()), (true, 2));
}

#[tokio::test]
async fn what_has_no_key_goes_round() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let mut client = client(&addresses(&cluster));
    let mut nodes = std::collections::HashSet::new();
    for _ in 0..4 {
        nodes.insert(
            answered(&mut client, KvRequest::noop())
                .await
                .node()
                .to_owned(),
        );
    }
    assert_eq!(nodes.len(), 2);
    let config = KvRequest::get_cluster_config(None);
    let mut second = client.node(&addresses(&cluster)[1]);
    let answer = answered(&mut second, config).await;
    assert_eq!(answer.value(), cluster.node(1).config_json());
}

/// C34
#[tokio::test]
async fn any_operation_on_a_document_goes_to_its_node() {
    let cluster = Cluster::start(3).await.expect("cluster");
    let mut client = client(&addresses(&cluster));
    answered(&mut client, KvRequest::noop()).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let owner = cluster.owner_of(key.as_bytes()).expect("an owner");
        let request = KvRequest::new(Opcode::SUBDOC_DICT_UPSERT, key).in_collection(8);
        let answer = answered(&mut client, request).await;
        assert_eq!(answer.node(), addresses(&cluster)[owner]);
        let seen = cluster.node(owner).seen_data().pop().expect("a request");
        assert_eq!((&seen.key[..], seen.collection), (key.as_bytes(), Some(8)));
        assert_eq!(seen.vbucket, cluster.vbucket_of(key.as_bytes()));
    }
}

#[tokio::test]
async fn what_has_no_key_goes_where_its_vbucket_is() {
    let cluster = Cluster::start(3).await.expect("cluster");
    let mut client = client(&addresses(&cluster));
    answered(&mut client, KvRequest::noop()).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let mut request = KvRequest::new(Opcode::OBSERVE_SEQNO, "");
        request.vbucket = Some(cluster.vbucket_of(key.as_bytes()));
        let answer = answered(&mut client, request).await;
        assert_eq!(
            Some(answer.node()),
            client.node_of(key.as_bytes()).as_deref()
        );
    }
}

/// Also if the poller is the first to reach the node that came.
#[tokio::test]
async fn the_connection_to_a_node_that_left_is_closed() {
    let nodes = [Node::start().await, Node::start().await].map(|node| node.expect("a node"));
    let [first, second] = nodes.each_ref().map(|node| node.addr().to_string());
    let (mut client, move_to) = client_that_moves("127.0.0.1:1", couchbase(), &first);
    let set = || KvRequest::set("k", "v", 0, 0);
    answered(&mut client, set()).await;
    assert!(client.node(&first).is_connected());
    move_to(&second);
    let polled = second.parse().expect("an address");
    drop(fetch_over(client.clone()).fetch(polled, None).await);
    answered(&mut client, set()).await;
    assert!(!client.node(&first).is_connected());
}

/// Its SYNs, or here its answers to the bootstrap, come from nowhere any more. Also if its dial was
/// not polled yet, as here without an await since the call.
#[tokio::test]
async fn a_request_waits_no_longer_for_a_node_that_left() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let node = Node::start().await.expect("a node");
    let addresses = [
        silent.local_addr().unwrap().to_string(),
        node.addr().to_string(),
    ];
    for dials in [true, false] {
        // It is given up long before the test waits.
        let options = couchbase().connect_timeout(Duration::from_secs(600));
        let (mut client, move_to) = client_that_moves("127.0.0.1:1", options, &addresses[0]);
        let set = || KvRequest::set("k", "v", 0, 0);
        let left = client.node(&addresses[0]);
        let waits = start(&mut client, set()).await;
        let mut dialled = None;
        if dials {
            dialled = Some(within(silent.accept()).await.expect("it dials"));
        }
        move_to(&addresses[1]);
        answered(&mut client, set()).await;
        let error = within(waits).await.unwrap_err();
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        // Who still holds the client of the node dials it anew.
        let again = left.connect();
        drop(dialled);
        within(silent.accept()).await.expect("it dials");
        drop(again);
    }
}

/// Its dial goes on: who needs the seed later waits for the same one.
#[tokio::test]
async fn a_request_waits_no_longer_for_a_seed_that_left() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let seed = silent.local_addr().unwrap().to_string();
    let node = Node::start().await.expect("a node");
    let options = couchbase().connect_timeout(Duration::from_secs(600));
    let (mut client, move_to) = client_that_moves(&seed, options, &seed);
    let set = || KvRequest::set("k", "v", 0, 0);
    let waits = start(&mut client, set()).await;
    let (dialled, _) = within(silent.accept()).await.expect("it dials");
    move_to(&node.addr().to_string());
    answered(&mut client, set()).await;
    let error = within(waits).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    let again = client.node(&seed).connect();
    drop(dialled);
    let error = within(again).await.unwrap_err();
    let closed = matches!(error, ClientError::BootstrapClosed { .. });
    assert!(closed, "{error}");
}

/// No other request has to look at the newer map.
#[tokio::test]
async fn a_request_alone_notices_that_its_node_left() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = silent.local_addr().unwrap().to_string();
    let node = Node::start().await.expect("a node");
    node.script().push(Step::hang().only(Opcode::GET));
    let busy = node.addr().to_string();
    let get = || KvRequest::get("k");
    for (address, for_permit) in [(&silent, false), (&busy, true)] {
        let options = couchbase()
            .connect_timeout(Duration::from_secs(600))
            .max_in_flight(1);
        let (mut client, move_to) = client_that_moves("127.0.0.1:1", options, address);
        let has_permit = for_permit.then(|| client.call(get()));
        let mut waits = client.call(get());
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waits).await;
        assert!(early.is_err() && waits.is_dialling());
        move_to("127.0.0.1:2");
        let error = within(waits).await.unwrap_err();
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        drop(has_permit);
    }
}
