//! The KV service on the wire.

use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::reason::{
    KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED, KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS, KV_TEMPORARY_FAILURE, NODE_NOT_AVAILABLE,
};
use reattempt::strategy::{BestEffort, NeverRetry};
use reattempt::{DeadlineScope, StopReason};
use reattempt_testbed::kv::client::KvRequest;
use reattempt_testbed::kv::{Cluster, Step, opcode, status};
use reattempt_tests::kv::{Client, data, until};

async fn start(nodes: usize) -> Cluster {
    Cluster::start(nodes).await.expect("a cluster")
}

fn set(value: &'static str) -> KvRequest {
    KvRequest::set("k", value, 0, 0)
}

/// How often an operation arrived at a node.
fn count(cluster: &Cluster, node: usize, opcode: u8) -> usize {
    let seen = data(cluster, node);
    seen.iter().filter(|seen| seen.opcode == opcode).count()
}

/// C36, C37, C35, C3: retried also if not idempotent, because nothing has happened.
#[tokio::test]
async fn statuses_that_pass_are_sent_again() {
    for (status, reason) in [
        (status::ETMPFAIL, KV_TEMPORARY_FAILURE),
        (status::LOCKED, KV_LOCKED),
        (status::SYNC_WRITE_IN_PROGRESS, KV_SYNC_WRITE_IN_PROGRESS),
        (
            status::SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
            KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
        ),
    ] {
        let cluster = start(1).await;
        let client = Client::of(&cluster);
        for request in [set("v"), KvRequest::get("k")] {
            cluster.node(0).script().repeat(&Step::status(status), 3);
            let operation = request.opcode;
            let ended = client.call(request).await;
            assert_eq!(ended.status(), 0, "{status:#x}");
            assert_eq!(ended.reasons(), [reason]);
            assert_eq!((ended.info.count(reason), ended.info.attempts()), (3, 4));
            assert_eq!(count(&cluster, 0, operation), 4);
        }
    }
}

/// C4, C5: one millisecond doubled.
#[tokio::test]
async fn best_effort_waits_by_the_retries_already_made() {
    let cluster = start(1).await;
    cluster
        .node(0)
        .script()
        .repeat(&Step::status(status::ETMPFAIL), 6);
    let ended = Client::of(&cluster).call(KvRequest::noop()).await;
    assert_eq!(ended.delays(), [1, 2, 4, 8, 16, 32]);
}

/// C36, C37: a status that may follow an effect, or that is permanent, is final.
#[tokio::test]
async fn other_statuses_are_the_callers() {
    for status in [
        status::SYNC_WRITE_AMBIGUOUS,
        status::ENOMEM,
        status::EBUSY,
        status::KEY_ENOENT,
        status::KEY_EEXISTS,
        status::EACCESS,
    ] {
        let cluster = start(1).await;
        cluster.node(0).script().push(Step::status(status));
        let ended = Client::of(&cluster).call(KvRequest::get("k")).await;
        assert_eq!(ended.status(), status);
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
        assert_eq!(count(&cluster, 0, opcode::GET), 1);
    }
}

/// C35: an unlock that meets another lock has the wrong CAS.
#[tokio::test]
async fn an_unlock_of_somebody_elses_lock_is_not_sent_again() {
    let cluster = start(1).await;
    let client = Client::of(&cluster);
    client.call(set("v")).await;
    let locked = client.call(KvRequest::get_and_lock("k", 10)).await;
    let cas = locked.outcome.expect("the lock").cas;
    let ended = client.call(KvRequest::unlock("k", cas + 1)).await;
    assert_eq!(ended.status(), status::LOCKED);
    assert_eq!(count(&cluster, 0, opcode::UNLOCK), 1);
    assert_eq!(client.call(KvRequest::unlock("k", cas)).await.status(), 0);
}

/// C35: a write that meets a lock succeeds once the lock is released.
#[tokio::test]
async fn a_write_waits_for_a_lock_to_go() {
    let cluster = start(1).await;
    let client = Client::of(&cluster);
    client.call(set("old")).await;
    let locked = client.call(KvRequest::get_and_lock("k", 30)).await;
    let cas = locked.outcome.expect("the lock").cas;
    let unlock = async {
        until(|| count(&cluster, 0, opcode::SET) >= 3).await;
        client.call(KvRequest::unlock("k", cas)).await
    };
    let (written, unlocked) = tokio::join!(client.call(set("new")), unlock);
    assert_eq!((written.status(), unlocked.status()), (0, 0));
    assert_eq!(written.reasons(), [KV_LOCKED]);
    assert_eq!(client.call(KvRequest::get("k")).await.value(), "new");
}

/// C6: fail fast stops at the first failure …
#[tokio::test]
async fn fail_fast_returns_the_first_failure() {
    let cluster = start(1).await;
    let script = cluster.node(0).script();
    script.push(Step::status(status::ETMPFAIL));
    let client = Client::of(&cluster).strategy(NeverRetry);
    let ended = client.call(KvRequest::get("k")).await;
    assert_eq!(ended.status(), status::ETMPFAIL);
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
    assert_eq!(count(&cluster, 0, opcode::GET), 1);
}

/// C6, C33: … but a moved vbucket is followed, because the node has done nothing.
#[tokio::test]
async fn a_moved_vbucket_is_followed_under_fail_fast_too() {
    let cluster = start(2).await;
    let client = Client::of(&cluster).strategy(NeverRetry);
    let key = cluster.key_of(0, "k").expect("a key");
    let write = |value: &'static str| KvRequest::set(key.clone(), value, 0, 0);
    assert_eq!(client.call(write("old")).await.status(), 0);
    cluster.move_vbuckets(0, 1);
    let ended = client.call(write("new")).await;
    assert_eq!(ended.status(), 0);
    assert_eq!(ended.reasons(), [KV_NOT_MY_VBUCKET]);
    let nodes: Vec<_> = ended
        .info
        .records()
        .filter_map(|record| record.backend.as_ref())
        .map(|node| node.as_str().to_owned())
        .collect();
    assert_eq!(nodes, reattempt_tests::kv::seeds(&cluster));
    assert_eq!(
        (
            count(&cluster, 0, opcode::SET),
            count(&cluster, 1, opcode::SET)
        ),
        (2, 1)
    );
}

/// C5, C6: the controlled back-off, by the number of retries made.
#[tokio::test]
async fn an_unknown_vbucket_is_retried_with_controlled_back_off() {
    let cluster = start(1).await;
    let empty = Step::status(status::NOT_MY_VBUCKET);
    cluster.node(0).script().repeat(&empty, 4);
    let ended = Client::of(&cluster)
        .strategy(NeverRetry)
        .call(KvRequest::get("k"))
        .await;
    assert_eq!(ended.status(), status::KEY_ENOENT);
    assert_eq!(ended.delays(), [1, 10, 50, 100]);
}

/// C13: a request that never left the client cannot have been processed.
#[tokio::test]
async fn a_write_that_was_never_sent_is_sent_again() {
    let cluster = start(1).await;
    let client = Client::of(&cluster);
    client.call(set("a")).await;
    cluster.kill(0).await;
    client.has_lost(&cluster, 0).await;
    let (watch, call) = client.begin(KvRequest::append("k", "b"));
    let back = async {
        until(|| watch.info().attempts() > 2).await;
        cluster.restart(0).await.expect("the node comes back");
    };
    let (ended, ()) = tokio::join!(call, back);
    assert_eq!(ended.status(), 0);
    assert_eq!(ended.reasons(), [NODE_NOT_AVAILABLE]);
    assert_eq!(count(&cluster, 0, opcode::APPEND), 1);
    assert_eq!(client.call(KvRequest::get("k")).await.value(), "ab");
}

/// Enough time for some attempts on an open connection, also on a busy machine.
const SHORT: Duration = Duration::from_millis(500);

/// A client with an open connection and a short deadline.
async fn in_a_hurry(cluster: &Cluster) -> Client {
    let client = Client::of(cluster);
    assert_eq!(client.call(KvRequest::noop()).await.status(), 0);
    client.limit(SHORT)
}

/// C7, C11: the deadline returns its own error, with the attempts.
#[tokio::test]
async fn a_write_in_flight_at_the_deadline_is_an_ambiguous_timeout() {
    let cluster = start(1).await;
    let client = in_a_hurry(&cluster).await;
    let script = cluster.node(0).script();
    script.repeat(&Step::status(status::ETMPFAIL), 2);
    script.push(Step::hang());
    let ended = client.call(set("v")).await;
    let elapsed = ended.elapsed();
    assert!(elapsed.ambiguous, "{elapsed}");
    assert_eq!(
        (elapsed.scope, elapsed.limit),
        (DeadlineScope::Call, Some(SHORT))
    );
    assert_eq!(elapsed.info.attempts(), 3);
    assert_eq!(
        elapsed.info.reasons().collect::<Vec<_>>(),
        [KV_TEMPORARY_FAILURE]
    );
    assert_eq!(elapsed.info.stopped(), Some(StopReason::Deadline));
}

/// C7: a read has no effect, answered or not.
#[tokio::test]
async fn a_read_in_flight_at_the_deadline_is_an_unambiguous_timeout() {
    let cluster = start(1).await;
    let client = in_a_hurry(&cluster).await;
    cluster.node(0).script().push(Step::hang());
    let ended = client.call(KvRequest::get("k")).await;
    assert!(!ended.elapsed().ambiguous);
    assert_eq!(ended.elapsed().info.attempts(), 1);
}

/// C7: the server has rejected every attempt. The last delay is capped, and nothing is sent at its
/// end.
#[tokio::test]
async fn a_write_that_waits_at_the_deadline_is_an_unambiguous_timeout() {
    let cluster = start(1).await;
    // A millisecond, then an hour.
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_secs(3600));
    let client = in_a_hurry(&cluster)
        .await
        .strategy(BestEffort::with_backoff(backoff.multiplier(3_600_000.0)));
    let busy = Step::status(status::ETMPFAIL);
    cluster.node(0).script().repeat(&busy, 10);
    let ended = client.call(set("v")).await;
    let elapsed = ended.elapsed();
    assert!(!elapsed.ambiguous, "{elapsed}");
    assert_eq!(
        elapsed.info.reasons().collect::<Vec<_>>(),
        [KV_TEMPORARY_FAILURE]
    );
    assert_eq!(elapsed.info.attempts(), 2);
    assert_eq!(count(&cluster, 0, opcode::SET), 2);
}

/// C7, C13: the request never left the client.
#[tokio::test]
async fn a_write_that_finds_no_node_times_out_unambiguously() {
    let cluster = start(1).await;
    let client = in_a_hurry(&cluster).await;
    cluster.kill(0).await;
    client.has_lost(&cluster, 0).await;
    let ended = client.call(set("w")).await;
    assert!(!ended.elapsed().ambiguous);
    assert_eq!(
        ended.elapsed().info.reasons().collect::<Vec<_>>(),
        [NODE_NOT_AVAILABLE]
    );
}

/// C17, C18: statuses that only the server's map defines.
#[tokio::test]
async fn of_an_unknown_status_the_error_map_decides() {
    for (status, sent) in [(0xff01, 2), (0xff02, 2), (0xff03, 1), (0xff04, 1)] {
        let cluster = start(1).await;
        let client = Client::of(&cluster);
        cluster.node(0).script().push(Step::status(status));
        let ended = client.call(set("v")).await;
        assert_eq!(count(&cluster, 0, opcode::SET), sent, "{status:#x}");
        if sent == 2 {
            assert_eq!(ended.status(), 0);
            assert_eq!(ended.reasons(), [KV_ERROR_MAP_RETRY_INDICATED]);
        } else {
            assert_eq!(ended.status(), status);
            assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
        }
    }
}
