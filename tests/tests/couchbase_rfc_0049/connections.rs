//! A connection that is closed before, during and after an answer.

use reattempt::Stopped;
use reattempt::reason::SOCKET_CLOSED_WHILE_IN_FLIGHT;
use reattempt_testbed::kv::client::{ClientError, KvRequest};
use reattempt_testbed::kv::{Cluster, Step, opcode};
use reattempt_tests::kv::{Client, data};

/// A node, and a client that has written "a" there.
async fn written() -> (Cluster, Client) {
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    let written = client.call(KvRequest::set("k", "a", 0, 0)).await;
    assert_eq!(written.status(), 0);
    (cluster, client)
}

/// How often an operation arrived.
fn count(cluster: &Cluster, opcode: u8) -> usize {
    let seen = data(cluster, 0).into_iter();
    seen.filter(|seen| seen.opcode == opcode).count()
}

/// The connection ends without a whole answer, and the request was carried out or not.
fn lost() -> [(&'static str, Step, bool); 6] {
    [
        ("closed before it", Step::close_before(), false),
        ("reset before it", Step::reset(), false),
        ("closed before it, and done", Step::lost_answer(), true),
        ("closed during it", Step::half_frame(), true),
        ("broken during it", Step::bad_magic(), true),
        ("too long to be one", Step::absurd_length(), true),
    ]
}

/// C12: an idempotent operation is sent again, on another connection.
#[tokio::test]
async fn a_read_whose_connection_ends_before_or_during_the_answer_is_sent_again() {
    for (when, step, _) in lost() {
        let (cluster, client) = written().await;
        cluster.node(0).script().push(step);
        let ended = client.call(KvRequest::get("k")).await;
        assert_eq!(ended.value(), "a", "{when}");
        assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT], "{when}");
        assert_eq!(count(&cluster, opcode::GET), 2, "{when}");
        assert_eq!(cluster.node(0).connections(), 2, "{when}");
    }
}

/// C12: any other is the caller's, carried out or not: nobody can tell.
#[tokio::test]
async fn a_write_whose_connection_ends_before_or_during_the_answer_is_sent_once() {
    for (when, step, done) in lost() {
        let (cluster, client) = written().await;
        cluster.node(0).script().push(step);
        let ended = client.call(KvRequest::append("k", "b")).await;
        let error = ended.error();
        assert!(
            matches!(error, ClientError::ClosedInFlight { .. }),
            "{when}: {error}"
        );
        assert_eq!(ended.info.stopped(), Some(Stopped::NotIdempotent), "{when}");
        assert_eq!(count(&cluster, opcode::APPEND), 1, "{when}");
        let now = client.call(KvRequest::get("k")).await;
        assert_eq!(now.value(), if done { "ab" } else { "a" }, "{when}");
    }
}

/// C12, C13: an answer that came whole counts, whatever becomes of its connection. The next request
/// goes out on another one.
#[tokio::test]
async fn a_connection_that_ends_after_the_answer_costs_no_request() {
    let (cluster, client) = written().await;
    for request in [KvRequest::get("k"), KvRequest::append("k", "b")] {
        cluster.node(0).script().push(Step::close_after());
        let ended = client.call(request).await;
        assert_eq!((ended.status(), ended.info.attempts()), (0, 1));
        client.has_lost(&cluster, 0).await;
    }
    assert_eq!(client.call(KvRequest::get("k")).await.value(), "ab");
    assert_eq!(cluster.node(0).connections(), 3);
}
