//! Requests without a map: they wait for a seed that has one.

use std::time::Duration;

use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::kv::{
    ClientError, ClientOptions, KvRequest, RoutedClient, fetch_with, map_of, offer_to,
};
use reattempt_couchbase::{ConfigStore, FetchConfig as _};
use reattempt_testbed::kv::{Cluster, Node};
use tokio::net::{TcpListener, TcpSocket};

use super::routed::{addresses, client, client_with};
use super::{couchbase, send, start, within};

/// The address of a port that is bound, but does not listen.
fn refuses() -> (TcpSocket, String) {
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap().to_string();
    (bound, address)
}

#[tokio::test]
async fn all_seeds_dead_is_a_connect_error_and_none_is_no_node() {
    let cluster = Cluster::start(2).await.expect("cluster");
    cluster.kill(0).await;
    cluster.kill(1).await;
    let mut routed = client(&addresses(&cluster));
    let sent = send(&mut routed, KvRequest::get("k")).await;
    let error = sent.expect_err("dead");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let mut routed = client(&[]);
    let sent = send(&mut routed, KvRequest::get("k")).await;
    let error = sent.expect_err("no seeds");
    assert!(
        matches!(error, ClientError::NoNode { vbucket: None, .. }),
        "{error}"
    );
}

/// Else an attempt that its deadline ends names no node.
#[tokio::test]
async fn a_request_without_a_map_names_the_seed_it_dials() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let (_bound, refuses) = refuses();
    for seeds in [[&silent, &refuses], [&refuses, &silent]] {
        let seeds = seeds.map(String::clone);
        let mut sent = start(&mut client(&seeds), KvRequest::get("k")).await;
        // The second one is dialled as well, or in place of the first.
        let on = async {
            while sent.address().is_none_or(|node| **node != *silent) {
                let some_time = tokio::time::timeout(Duration::from_millis(10), &mut sent);
                some_time.await.expect_err("one is silent");
            }
        };
        within(on).await;
        assert!(sent.is_dialling());
    }
}

/// Other calls, or a poller, may bring it.
#[tokio::test]
async fn a_call_that_waits_for_a_map_takes_the_one_that_came() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let cluster = Cluster::start(1).await.expect("cluster");
    let store = ConfigStore::new();
    let options = couchbase().on_config(offer_to(store.clone()));
    let mut routed = RoutedClient::new([address], options, map_of(store.clone()));
    let waits = tokio::spawn(async move { send(&mut routed, KvRequest::get("k")).await });
    let node = cluster.node(0).addr().to_string();
    let fetch = fetch_with(couchbase());
    let config = fetch.fetch(node.parse().unwrap(), None).await.unwrap();
    store.compare_and_swap(config.expect("a configuration"));
    let answer = waits.await.unwrap().expect("it waits for the silent seed");
    assert_eq!(answer.node(), node);
}

/// Else no call is retried at start-up, also after another seed has come back.
#[tokio::test]
async fn a_silent_seed_does_not_hide_that_another_one_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let (_bound, refuses) = refuses();
    for seeds in [[&silent, &refuses], [&refuses, &silent]] {
        let options = couchbase().connect_timeout(Duration::from_secs(600));
        let mut client = client_with(&seeds.map(String::clone), options);
        let sent = send(&mut client, KvRequest::get("k")).await;
        let error = sent.expect_err("no seed is of use");
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
        assert_eq!(error.address(), Some(&*refuses));
    }
}

/// The login would be refused again, so no retry is of use. A seed that is slow has its time first.
#[tokio::test]
async fn a_refused_login_is_the_result_whatever_other_seeds_do() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let (_bound, refuses) = refuses();
    let node = Node::builder().require_auth().start().await.expect("node");
    let node = node.addr().to_string();
    for other in [&silent, &refuses] {
        for seeds in [[&node, other], [other, &node]] {
            let options = ClientOptions::couchbase("Administrator", "guess", "default")
                .mechanism(Mechanism::Plain)
                .connect_timeout(Duration::from_secs(600));
            let mut client = client_with(&seeds.map(String::clone), options);
            let sent = send(&mut client, KvRequest::get("k")).await;
            let error = sent.expect_err("refused");
            assert!(matches!(error, ClientError::Auth { .. }), "{error}");
        }
    }
}

/// The node that refuses may be one of another cluster by now.
#[tokio::test]
async fn a_refused_login_does_not_end_the_call_before_a_slow_seed() {
    let other = Node::builder().credentials("Administrator", "other");
    let refusing = other.require_auth().start().await.expect("node");
    let cluster = Cluster::start(1).await.expect("cluster");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = listener.local_addr().unwrap().to_string();
    let behind = cluster.node(0).addr();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let mut server = tokio::net::TcpStream::connect(behind).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let options = couchbase().mechanism(Mechanism::Plain);
    let mut client = client_with(&[refusing.addr().to_string(), slow], options);
    let sent = send(&mut client, KvRequest::get("k")).await;
    assert!(sent.is_ok(), "{sent:?}");
}
