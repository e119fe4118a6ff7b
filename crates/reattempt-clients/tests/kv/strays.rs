//! Responses without a request, or to another operation.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use reattempt_clients::kv::client::CloseReason;
use reattempt_clients::kv::frame::CLUSTERMAP_CHANGED;
use reattempt_clients::kv::{ClientError, Frame, KvRequest, Magic, SendStage};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_testbed::kv::{Node, SeenRequest, Step};

use super::{connect, couchbase, send, set_up, until};

/// Encoded responses: operation and opaque of each.
fn answers(to: impl IntoIterator<Item = (Opcode, u32)>) -> Bytes {
    let mut wire = BytesMut::new();
    for (op, opaque) in to {
        let answer = Frame {
            cas: 7,
            ..Frame::new(Magic::Response, op, opaque)
        };
        answer.encode(&mut wire).expect("encode");
    }
    wire.freeze()
}

/// Requests never reuse an opaque of the bootstrap, so a duplicate response matches none.
#[tokio::test]
async fn a_second_answer_to_the_set_up_answers_nothing() {
    let asked: Arc<Mutex<Vec<(Opcode, u32)>>> = Arc::default();
    let (earlier, all) = (asked.clone(), asked.clone());
    let node = Node::builder()
        .bootstrap_handler(move |seen| {
            let asked = (seen.opcode, seen.opaque);
            earlier.lock().expect("lock").push(asked);
            None
        })
        .handler(move |seen| {
            let all = all.lock().expect("lock").clone();
            Some(Step::raw(answers(
                all.into_iter().chain([(seen.opcode, seen.opaque)]),
            )))
        })
        .start()
        .await
        .expect("node");
    let mut connection = set_up(&node).await;
    let set_up_asked = asked.lock().expect("lock").len() as u64;
    assert_eq!(set_up_asked, 7);
    for round in 1..=9 {
        let answer = send(&mut connection, KvRequest::set("k", "v", 0, 0)).await;
        assert_eq!(answer.expect("answer").cas, 7);
        assert_eq!(connection.ignored_answers(), round * set_up_asked);
    }
}

/// A response to an operation that was not requested yet, or never is, is not kept as a response of
/// the bootstrap.
#[tokio::test]
async fn a_response_without_a_request_is_ignored_during_setup() {
    let mut wire = BytesMut::from(&answers((1000..1100).map(|opaque| (Opcode::GET, opaque)))[..]);
    // Opaques that the login will use.
    wire.extend_from_slice(&answers([(Opcode::SASL_AUTH, 4), (Opcode::SASL_STEP, 5)]));
    let node = Node::builder()
        .bootstrap_handler(move |seen| {
            let mut wire = wire.clone();
            wire.extend_from_slice(&answers([(Opcode::HELLO, seen.opaque)]));
            (seen.opcode == Opcode::HELLO).then(|| Step::raw(wire.freeze()))
        })
        .start()
        .await
        .expect("node");
    let mut connection = set_up(&node).await;
    let answer = send(&mut connection, KvRequest::get("k")).await;
    assert_eq!(answer.expect("answer").status, Status::KEY_ENOENT);
}

#[tokio::test]
async fn an_answer_of_another_operation_ends_the_set_up() {
    let node = Node::builder()
        .bootstrap_handler(|seen| {
            let other = answers([(Opcode::NOOP, seen.opaque)]);
            (seen.opcode == Opcode::SELECT_BUCKET).then(|| Step::raw(other))
        })
        .start()
        .await
        .expect("node");
    let error = connect(&node, &couchbase()).await.expect_err("lost");
    assert_eq!(error.stage(), SendStage::NeverSent);
    let ClientError::BootstrapClosed { reason, .. } = error else {
        panic!("{error}");
    };
    let (asked, answered) = (Opcode::SELECT_BUCKET, Opcode::NOOP);
    assert!(
        matches!(reason, CloseReason::WrongOpcode { asked: a, answered: b } if (a, b) == (asked, answered)),
        "{reason}"
    );
}

/// A node whose last answer of the bootstrap is in one segment with `rest`.
async fn node_with_rest(rest: Bytes) -> Node {
    let answers = move |seen: &SeenRequest| {
        let asked = seen.opcode == Opcode::GET_CLUSTER_CONFIG;
        asked.then(|| {
            let mut wire = BytesMut::new();
            let answer = Frame::new(Magic::Response, seen.opcode, seen.opaque);
            answer.encode(&mut wire).expect("a frame");
            wire.extend_from_slice(&rest);
            Step::raw(wire.freeze())
        })
    };
    let node = Node::builder().bootstrap_handler(answers).start().await;
    node.expect("node")
}

/// Nothing more may arrive for a long time.
#[tokio::test]
async fn what_follows_the_bootstrap_at_once_is_read() {
    let pushed = Frame {
        value: "{}".into(),
        ..Frame::new(Magic::ServerRequest, CLUSTERMAP_CHANGED, 0)
    };
    let mut wire = BytesMut::new();
    pushed.encode(&mut wire).expect("a frame");
    let node = node_with_rest(wire.freeze()).await;
    let connection = set_up(&node).await;
    until(|| {
        connection
            .cluster_config_json()
            .is_some_and(|it| it == "{}")
    })
    .await;
    let node = node_with_rest("no frame, and as long as one".into()).await;
    let mut connection = set_up(&node).await;
    until(|| connection.is_closed()).await;
    let sent = send(&mut connection, KvRequest::set("k", "v", 0, 0)).await;
    let error = sent.expect_err("closed");
    assert_eq!(error.stage(), SendStage::NeverSent, "{error}");
    assert!(node.store().is_empty());
}
