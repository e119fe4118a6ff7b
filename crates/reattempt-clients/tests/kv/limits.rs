//! The limit on requests to one node without a response.

use std::future::Future as _;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use reattempt::Call;
use reattempt_clients::kv::{ClientError, KvRequest, StageLayer, fetch_over};
use reattempt_couchbase::kv::Opcode;
use reattempt_couchbase::{FetchConfig as _, KvClientLayer};
use reattempt_testbed::kv::{Cluster, Node, Step};
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::routed::{addresses, client_that_moves, client_with};
use super::{answered, couchbase, start, within};

/// Each node has its own limit: nothing sent to another node waits for the silent one.
#[tokio::test]
async fn a_silent_node_delays_no_request_to_another_node() {
    let cluster = Cluster::start(2).await.expect("cluster");
    let options = couchbase().max_in_flight(1);
    let mut client = client_with(&addresses(&cluster), options);
    answered(&mut client, KvRequest::noop()).await;
    let silent = cluster.node(0);
    silent.script().push(Step::hang().only(Opcode::GET));
    let [silent_key, other_key] = [0, 1].map(|node| cluster.key_of(node, "k").expect("a key"));
    let mut start = |key: &str| {
        let ready = std::pin::pin!(client.ready()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(ready)) = ready else {
            panic!("it is always ready");
        };
        ready.call(KvRequest::get(key.to_owned()))
    };
    let sent = start(&silent_key);
    let mut waits = start(&silent_key);
    let given_up = start(&silent_key);
    let other = within(start(&other_key)).await.expect("answer");
    assert_eq!(other.node(), addresses(&cluster)[1]);
    // A poll is not counted.
    let polled = silent.addr().to_string().parse().unwrap();
    let fetch = fetch_over(client.clone());
    within(fetch.fetch(polled, None)).await.expect("a poll");
    let early = tokio::time::timeout(Duration::from_millis(20), &mut waits).await;
    assert!(early.is_err() && waits.is_dialling());
    drop((given_up, sent));
    within(waits).await.expect("answer");
    assert_eq!(silent.seen_data().len(), 2);
}

/// A deadline ends the wait for the limit of a node, and nothing can have happened.
#[tokio::test]
async fn a_write_that_waits_for_its_node_was_never_sent() {
    let cluster = Cluster::start(1).await.expect("cluster");
    let options = couchbase().max_in_flight(1);
    let mut client = client_with(&addresses(&cluster), options);
    answered(&mut client, KvRequest::noop()).await;
    let silent = cluster.node(0);
    silent.script().push(Step::hang().only(Opcode::GET));
    let blocks = client.ready().await.expect("ready");
    let blocks = blocks.call(KvRequest::get("k"));
    let layer = KvClientLayer::without_config_poll().timeout(Duration::from_millis(20));
    let stack = layer.layer(StageLayer::new().layer(client.clone()));
    let write = Call::new(KvRequest::set("k", "v", 0, 0));
    let error = within(stack.oneshot(write)).await.expect_err("no permit");
    let elapsed = error.elapsed().expect("the deadline");
    assert!(!elapsed.ambiguous, "{elapsed}");
    assert!(silent.store().is_empty());
    drop(blocks);
}

/// Its own limit is used up by requests to it that may never be answered.
#[tokio::test]
async fn a_request_waits_for_no_permit_of_a_node_that_left() {
    for left_is_seed in [false, true] {
        waits_for_no_permit_of_a_node_that_left(left_is_seed).await;
    }
}

async fn waits_for_no_permit_of_a_node_that_left(left_is_seed: bool) {
    let nodes = [Node::start().await, Node::start().await].map(|node| node.expect("a node"));
    nodes[0].script().push(Step::hang().only(Opcode::GET));
    let [left, came] = nodes.each_ref().map(|node| node.addr().to_string());
    let options = couchbase().max_in_flight(1);
    let seed = if left_is_seed { &left } else { "127.0.0.1:1" };
    let (mut client, move_to) = client_that_moves(seed, options, &left);
    let get = || KvRequest::get("k");
    let sent = start(&mut client, get()).await;
    let waits = start(&mut client, get()).await;
    move_to(&came);
    answered(&mut client, get()).await;
    let error = within(waits).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    drop(sent);
}
