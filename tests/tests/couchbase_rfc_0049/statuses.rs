//! Every status of the KV service on the wire, and what is left out of the list.

use reattempt::reason::{
    KV_COLLECTION_OUTDATED, KV_LOCKED, KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS, KV_TEMPORARY_FAILURE,
};
use reattempt::{RetryReason, Stopped};
use reattempt_couchbase::kv::Status;
use reattempt_testbed::kv::client::KvRequest;
use reattempt_testbed::kv::{Cluster, Step, opcode};
use reattempt_tests::kv::Client;

/// RFC 0049, Response Code Retry List.
const LISTED: [(u16, RetryReason); 6] = [
    (0x07, KV_NOT_MY_VBUCKET),
    (0x09, KV_LOCKED),
    (0x86, KV_TEMPORARY_FAILURE),
    (0x88, KV_COLLECTION_OUTDATED),
    (0xa2, KV_SYNC_WRITE_IN_PROGRESS),
    (0xa4, KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS),
];

/// A node that answers the next request with this status, and then does what it is asked.
fn answers_once(cluster: &Cluster, status: u16, opcode: u8) {
    let step = Step::status(status).only(opcode);
    cluster.node(0).script().push(step);
}

/// C33, C34, C35, C36, C37, C16: six of all that are known are sent again, whether or not the operation is idempotent.
#[tokio::test]
async fn of_all_statuses_six_are_sent_again() {
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    for status in Status::KNOWN {
        let listed = LISTED.iter().find(|(listed, _)| *listed == status.0);
        for request in [KvRequest::set("k", "v", 0, 0), KvRequest::get("k")] {
            answers_once(&cluster, status.0, request.opcode);
            let ended = client.call(request).await;
            if let Some((_, reason)) = listed {
                assert_eq!(ended.status(), 0, "{status}");
                assert_eq!(ended.reasons(), [*reason]);
                assert_eq!((ended.delays(), ended.info.attempts()), (vec![1], 2));
                continue;
            }
            assert_eq!(ended.status(), status.0, "unchanged");
            assert_eq!(ended.info.attempts(), 1, "{status}");
            let stopped = if status.is_success() {
                Stopped::Success
            } else {
                Stopped::Fatal
            };
            assert_eq!(ended.info.stopped(), Some(stopped), "{status}");
        }
    }
}

/// C40, C34, C35: replication, the set-up of a connection, a lookup of an id, and an unlock.
#[tokio::test]
async fn what_is_left_out_of_the_list_is_the_callers() {
    const DCP_STREAM_REQUEST: u8 = 0x53;
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    assert_eq!(client.call(KvRequest::noop()).await.status(), 0);
    for (opcode, statuses) in [
        (
            DCP_STREAM_REQUEST,
            &[0x07, 0x09, 0x86, 0x88, 0xa2, 0xa4][..],
        ),
        (opcode::GET_ERROR_MAP, &[0x07, 0x86, 0xa2]),
        (opcode::SELECT_BUCKET, &[0x07, 0x86, 0xa4]),
        (opcode::GET_COLLECTION_ID, &[0x88]),
        (opcode::UNLOCK, &[0x09]),
    ] {
        for status in statuses {
            answers_once(&cluster, *status, opcode);
            let ended = client.call(KvRequest::new(opcode, "")).await;
            assert_eq!(ended.status(), *status, "{opcode:#x}");
            assert_eq!(ended.info.attempts(), 1, "{opcode:#x} {status:#x}");
        }
    }
    // But what is not excluded is sent again for those too.
    for (opcode, status) in [(opcode::GET_COLLECTION_ID, 0x86), (opcode::UNLOCK, 0x86)] {
        answers_once(&cluster, status, opcode);
        let ended = client.call(KvRequest::new(opcode, "k")).await;
        assert_eq!(ended.info.attempts(), 2, "{opcode:#x}");
        assert_eq!(ended.reasons(), [KV_TEMPORARY_FAILURE]);
    }
}
