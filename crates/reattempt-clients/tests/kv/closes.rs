use reattempt_clients::kv::{
    Bootstrap, ClientError, ClientOptions, CloseReason, Connection, FrameError, KvRequest,
    SendStage,
};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_testbed::kv::{Node, Step};
use tower::Service as _;

use super::{answered, bare, connect, couchbase, send, start, until, within};

/// A node that applies `step` to the first request, and the failure of that request.
async fn failure(step: Step) -> (Node, Connection, ClientError) {
    let node = Node::scripted([step]).await.expect("node");
    let mut c = bare(&node).await;
    let sent = send(&mut c, KvRequest::set("k", "v", 0, 0)).await;
    let error = sent.expect_err("no answer");
    assert_eq!(error.stage(), SendStage::InFlight, "{error}");
    assert!(c.is_closed());
    (node, c, error)
}

fn reason(error: ClientError) -> CloseReason {
    match error {
        ClientError::ClosedInFlight { reason, .. } => reason,
        other => panic!("not in flight: {other}"),
    }
}

/// C12
#[tokio::test]
async fn a_close_before_the_answer_is_in_flight() {
    let (node, mut c, error) = failure(Step::close_before()).await;
    assert!(matches!(reason(error), CloseReason::Closed));
    assert!(node.store().is_empty());
    // C13: a request after the close was never sent.
    let error = send(&mut c, KvRequest::noop()).await.expect_err("closed");
    assert!(
        matches!(
            error,
            ClientError::NotSent {
                reason: CloseReason::Closed,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.stage(), SendStage::NeverSent);
}

#[tokio::test]
async fn a_lost_answer_looks_the_same_but_was_carried_out() {
    let (node, _, error) = failure(Step::lost_answer()).await;
    assert!(matches!(reason(error), CloseReason::Closed));
    assert_eq!(node.store().len(), 1);
}

#[tokio::test]
async fn half_a_frame_is_a_close_in_the_middle() {
    let (node, _, error) = failure(Step::half_frame()).await;
    assert!(matches!(
        reason(error),
        CloseReason::MidFrame { received: 12 }
    ));
    assert_eq!(node.store().len(), 1);
}

#[tokio::test]
async fn a_reset_is_an_io_error() {
    let (_, _, error) = failure(Step::reset()).await;
    assert!(matches!(reason(error), CloseReason::Io(_)));
}

#[tokio::test]
async fn a_wrong_magic_costs_the_connection() {
    let (_, _, error) = failure(Step::bad_magic()).await;
    let expected = FrameError::UnknownMagic { byte: 0x47 };
    assert!(matches!(reason(error), CloseReason::Protocol(found) if found == expected));
}

#[tokio::test]
async fn an_absurd_length_costs_the_connection() {
    let (_, _, error) = failure(Step::absurd_length()).await;
    assert!(matches!(
        reason(error),
        CloseReason::Protocol(FrameError::BodyTooLong {
            length: 0xffff_ffff,
            ..
        })
    ));
}

#[tokio::test]
async fn a_request_from_a_server_that_is_none_costs_the_connection() {
    let mut frame = vec![0x80];
    frame.extend([0; 23]);
    let (_, _, error) = failure(Step::raw(frame)).await;
    assert!(matches!(
        reason(error),
        CloseReason::Protocol(FrameError::UnexpectedMagic { .. })
    ));
}

#[tokio::test]
async fn an_answer_of_another_operation_costs_the_connection() {
    let node = Node::builder()
        .handler(|seen| {
            let mut frame = vec![0x81, 0x04];
            frame.extend([0; 10]);
            frame.extend(seen.opaque.to_be_bytes());
            frame.extend([0; 8]);
            Some(Step::raw(frame))
        })
        .start()
        .await
        .expect("node");
    let mut c = bare(&node).await;
    let error = send(&mut c, KvRequest::get("k")).await.expect_err("wrong");
    assert!(matches!(
        reason(error),
        CloseReason::WrongOpcode {
            asked: Opcode::GET,
            answered: Opcode::DELETE
        }
    ));
}

#[tokio::test]
async fn an_answer_before_the_close_counts() {
    let node = Node::scripted([Step::close_after()]).await.expect("node");
    let mut c = bare(&node).await;
    let answer = answered(&mut c, KvRequest::set("k", "v", 0, 0)).await;
    assert!(answer.is_success());
    until(|| c.is_closed()).await;
}

/// C39: the request gets its answer, the others in flight are lost, and no further one is sent.
#[tokio::test]
async fn an_answer_that_costs_the_connection_closes_it() {
    let steps = [Step::hang(), Step::status(Status::EINTERNAL)];
    let node = Node::scripted(steps).await.expect("node");
    let mut c = bare(&node).await;
    let other = start(&mut c, KvRequest::get("k")).await;
    let answer = answered(&mut c, KvRequest::noop()).await;
    assert_eq!(answer.status, Status::EINTERNAL);
    let error = send(&mut c, KvRequest::noop()).await.expect_err("closed");
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    let error = within(other).await.expect_err("closed");
    assert!(matches!(reason(error), CloseReason::Local));
    assert_eq!(node.seen().len(), 2);
}

/// C39: one that never had a bucket is of use without one.
#[tokio::test]
async fn the_loss_of_its_bucket_closes_a_connection() {
    for name in [Some("default"), None] {
        let lost = Step::status(Status::NO_BUCKET).only(Opcode::GET);
        let node = Node::scripted([lost]).await.expect("node");
        let mut options = couchbase();
        if let Bootstrap::Couchbase { bucket, .. } = &mut options.bootstrap {
            *bucket = name.map(Into::into);
        }
        let mut c = connect(&node, &options).await.expect("connect");
        let answer = answered(&mut c, KvRequest::get("k")).await;
        assert_eq!(answer.status, Status::NO_BUCKET);
        assert_eq!(c.is_closed(), name.is_some());
    }
}

/// C13: requests queued behind a full socket were never sent; one that is partly written may be.
#[tokio::test]
async fn requests_queued_behind_a_full_socket_are_not_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let options = ClientOptions::memcached();
    let connecting = Connection::connect(&address, &options);
    let mut c = within(connecting).await.expect("connect");
    let (peer, _) = within(listener.accept()).await.expect("accept");
    // More than loopback buffers hold, to a peer that does not read.
    let huge = KvRequest::set("huge", vec![0; 16 * 1024 * 1024], 0, 0);
    let first = start(&mut c, huge).await;
    let second = start(&mut c, KvRequest::delete("small")).await;
    // Part of the first one arrived, so it is in flight.
    within(peer.readable()).await.expect("readable");
    tokio::task::yield_now().await;
    drop(peer);
    let error = within(first).await.expect_err("closed");
    assert_eq!(error.stage(), SendStage::InFlight, "{error}");
    let error = within(second).await.expect_err("closed");
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
}

#[tokio::test]
async fn a_local_close_fails_what_waits() {
    let node = Node::scripted([Step::hang()]).await.expect("node");
    let mut c = bare(&node).await;
    let answer = start(&mut c, KvRequest::get("k")).await;
    c.close();
    let error = within(answer).await.expect_err("closed");
    assert!(matches!(
        error,
        ClientError::NotSent {
            reason: CloseReason::Local,
            ..
        } | ClientError::ClosedInFlight {
            reason: CloseReason::Local,
            ..
        }
    ));
}

#[tokio::test]
async fn a_dropped_node_drops_its_connections() {
    let node = Node::scripted([Step::hang()]).await.expect("node");
    let mut c = bare(&node).await;
    let answer = start(&mut c, KvRequest::get("k")).await;
    drop(node);
    within(answer).await.expect_err("closed");
}

/// C13: the close arrives before the request, but has not been read yet.
#[tokio::test]
async fn a_close_that_came_before_the_request_leaves_it_unsent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
    let address = listener.local_addr().expect("address").to_string();
    let options = ClientOptions::memcached();
    for _ in 0..50 {
        let connecting = Connection::connect(&address, &options);
        let mut c = within(connecting).await.expect("connect");
        let (server, _) = listener.accept().expect("accept");
        // No other task runs between the close and the call.
        std::future::poll_fn(|cx| c.poll_ready(cx))
            .await
            .expect("ready");
        drop(server);
        let error = within(c.call(KvRequest::set("k", "v", 0, 0))).await;
        let error = error.expect_err("closed");
        assert_eq!(error.stage(), SendStage::NeverSent, "{error}");
    }
}
