use std::time::Duration;

use reattempt::Call;
use reattempt_clients::kv::{
    ClientError, ClientOptions, KvRequest, KvResponse, NodeClient, RoutedFuture, SendStage,
};
use reattempt_couchbase::kv::Opcode;
use reattempt_testbed::kv::{Node, Step};
use tower::{Service as _, ServiceExt as _};

use super::{answered, bare, client_of, send, set_up, start, until, within};

#[tokio::test]
async fn answers_out_of_order_find_their_requests() {
    let slow = Duration::from_millis(30);
    let node = Node::scripted([
        Step::out_of_order(),
        Step::execute().after(slow),
        Step::execute(),
    ])
    .await
    .expect("node");
    for key in ["a", "b", "c"] {
        node.store().put(key, key);
    }
    let mut c = bare(&node).await;
    let mut answers = Vec::new();
    for key in ["a", "b", "c"] {
        answers.push((key, start(&mut c, KvRequest::get(key)).await));
    }
    assert_eq!(c.outstanding(), 3);
    for (key, answer) in answers {
        assert_eq!(
            within(answer).await.expect("answer").value(),
            key.as_bytes()
        );
    }
    assert_eq!(c.outstanding(), 0);
    let opaques: std::collections::HashSet<u32> =
        node.seen().iter().map(|request| request.opaque).collect();
    assert_eq!(opaques.len(), 3);
}

#[tokio::test]
async fn a_request_cancelled_before_it_left_is_not_sent() {
    let node = Node::start().await.expect("node");
    let mut c = bare(&node).await;
    // The driver did not run yet: there was no await since the call.
    let ready = c.ready().await.expect("ready");
    drop(ready.call(KvRequest::delete("never")));
    answered(&mut c, KvRequest::noop()).await;
    let seen: Vec<_> = node.seen().iter().map(|request| request.opcode).collect();
    assert_eq!(seen, [Opcode::NOOP]);
}

#[tokio::test]
async fn readiness_is_bounded_and_comes_back_with_answers_and_cancels() {
    let node = Node::start().await.expect("node");
    node.script().repeat(&Step::hang().only(Opcode::GET), 2);
    let options = ClientOptions::memcached().max_in_flight(2);
    let mut client = NodeClient::new(node.addr().to_string(), options);
    let first = start(&mut client, KvRequest::get("a")).await;
    let second = start(&mut client, KvRequest::get("b")).await;
    let mut other = client.clone();
    let full = tokio::time::timeout(Duration::from_millis(20), other.ready()).await;
    assert!(full.is_err());
    drop(first);
    let third = start(&mut other, KvRequest::noop()).await;
    assert!(within(third).await.expect("answer").is_success());
    drop(second);
    answered(&mut client, KvRequest::noop()).await;
}

#[tokio::test]
async fn many_callers_share_one_dial() {
    let node = Node::start().await.expect("node");
    let client = client_of(&node);
    let set = |n| KvRequest::set(format!("k{n}"), "v", 0, 0);
    let calls = (0..20).map(|n| tokio::spawn(client.clone().oneshot(set(n))));
    for call in calls.collect::<Vec<_>>() {
        let answer = within(call).await.expect("task").expect("answer");
        assert!(answer.is_success());
    }
    assert_eq!(node.connections(), 1);
    assert_eq!(node.store().len(), 20);
}

#[tokio::test]
async fn a_call_outlives_its_client() {
    let node = Node::start().await.expect("node");
    let client = client_of(&node);
    let answer = within(client.oneshot(KvRequest::noop())).await;
    assert!(answer.expect("answer").is_success());
}

#[tokio::test]
async fn a_restarted_node_is_dialled_again_after_connect_errors() {
    let node = Node::start().await.expect("node");
    node.store().put("k", "v");
    let mut client = client_of(&node);
    let answer = answered(&mut client, KvRequest::get("k")).await;
    assert!(answer.is_success());
    node.stop().await;
    until(|| !client.is_connected()).await;
    let sent = send(&mut client, KvRequest::get("k")).await;
    let error = sent.expect_err("dead");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    assert_eq!(error.stage(), SendStage::NeverSent);
    assert!(client.error_map_json().is_some());
    node.restart().await.expect("restart");
    let answer = answered(&mut client, KvRequest::get("k")).await;
    assert_eq!((answer.value(), node.connections()), (&b"v"[..], 2));
    assert!(format!("{answer:?}").contains(r#"value: b"v""#));
}

#[tokio::test]
async fn disconnect_only_closes_the_connection_it_names() {
    let node = Node::start().await.expect("node");
    let mut client = client_of(&node);
    let first = answered(&mut client, KvRequest::noop()).await.connection();
    client.disconnect(first + 1_000_000);
    let second = answered(&mut client, KvRequest::noop()).await.connection();
    assert_eq!(second, first);
    client.disconnect(first);
    let third = answered(&mut client, KvRequest::noop()).await.connection();
    assert_ne!(third, first);
}

#[tokio::test]
async fn large_values_cross_in_both_directions() {
    let node = Node::start().await.expect("node");
    let mut c = set_up(&node).await;
    let value = vec![b'x'; 3_000_000];
    let answer = answered(&mut c, KvRequest::set("k", value.clone(), 0, 0)).await;
    assert!(answer.is_success());
    assert_eq!(answered(&mut c, KvRequest::get("k")).await.value(), value);
}

/// Each layer moves them; up to 128 bytes that is a few instructions.
#[test]
fn requests_answers_and_futures_are_small_to_move() {
    assert!(size_of::<Call<KvRequest>>() <= 96);
    assert!(size_of::<Result<KvResponse, ClientError>>() <= 72);
    assert!(size_of::<RoutedFuture>() <= 80);
}
