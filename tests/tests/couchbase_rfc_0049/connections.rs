//! A connection that is closed before, during and after a response.

use reattempt::StopReason;
use reattempt::reason::SOCKET_CLOSED_WHILE_IN_FLIGHT;
use reattempt_testbed::kv::client::{ClientError, KvRequest};
use reattempt_testbed::kv::{Cluster, Step, opcode};
use reattempt_tests::kv::{Client, data};

/// A node, and a client that has written "a" to it.
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

/// Connections that end without a complete response, whether or not the request was processed.
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

/// C12: an idempotent operation is retried on another connection.
#[tokio::test]
async fn a_read_whose_connection_ends_before_the_answer_is_retried() {
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

/// C12: other operations return the failure, because it is not known whether they were processed.
#[tokio::test]
async fn a_write_whose_connection_ends_before_the_answer_is_sent_once() {
    for (when, step, done) in lost() {
        let (cluster, client) = written().await;
        cluster.node(0).script().push(step);
        let ended = client.call(KvRequest::append("k", "b")).await;
        let error = ended.error();
        assert!(
            matches!(error, ClientError::ClosedInFlight { .. }),
            "{when}: {error}"
        );
        assert_eq!(
            ended.info.stopped(),
            Some(StopReason::NotIdempotent),
            "{when}"
        );
        assert_eq!(count(&cluster, opcode::APPEND), 1, "{when}");
        let now = client.call(KvRequest::get("k")).await;
        assert_eq!(now.value(), if done { "ab" } else { "a" }, "{when}");
    }
}

/// C12, C13: a complete response counts, even if its connection ends. The next request uses another
/// connection.
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
