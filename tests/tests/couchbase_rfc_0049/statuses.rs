//! Every status of the KV service on the wire, and the exceptions from the retry list.

use std::time::Duration;

use reattempt::reason::{
    KV_COLLECTION_OUTDATED, KV_LOCKED, KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS, KV_TEMPORARY_FAILURE, SERVICE_RESPONSE_CODE_INDICATED,
};
use reattempt::{RetryReason, StopReason};
use reattempt_couchbase::kv::Status;
use reattempt_testbed::kv::client::KvRequest;
use reattempt_testbed::kv::{Cluster, Step, opcode, status};
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

/// A node that responds to the next request with this status, and then normally.
fn answers_once(cluster: &Cluster, status: u16, opcode: u8) {
    let step = Step::status(status).only(opcode);
    cluster.node(0).script().push(step);
}

/// C33, C34, C35, C36, C37, C16: six of all known statuses are retried, whether or not the
/// operation is idempotent.
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
            // Partial success statuses belong to other operations, so they are final here.
            let stopped = if *status == Status::SUCCESS {
                StopReason::Success
            } else {
                StopReason::Fatal
            };
            assert_eq!(ended.info.stopped(), Some(stopped), "{status}");
        }
    }
}

/// C40, C34, C35: replication, connection setup, a lookup of an id, and an unlock.
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
    // Statuses without an exception are retried for these operations too.
    for (opcode, status) in [(opcode::GET_COLLECTION_ID, 0x86), (opcode::UNLOCK, 0x86)] {
        answers_once(&cluster, status, opcode);
        let ended = client.call(KvRequest::new(opcode, "k")).await;
        assert_eq!(ended.info.attempts(), 2, "{opcode:#x}");
        assert_eq!(ended.reasons(), [KV_TEMPORARY_FAILURE]);
    }
}

/// C36, C38, C34: what released clients have added since RFC 0049 is an option.
#[tokio::test]
async fn the_option_adds_four_statuses_on_the_wire() {
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster);
    let current = client.clone().current_server_codes();
    for (status, reason) in [
        (status::EWOULD_THROTTLE, SERVICE_RESPONSE_CODE_INDICATED),
        (status::ECONFIG_ONLY, SERVICE_RESPONSE_CODE_INDICATED),
        (status::EBUSY, KV_TEMPORARY_FAILURE),
        (status::UNKNOWN_SCOPE, KV_COLLECTION_OUTDATED),
    ] {
        answers_once(&cluster, status, opcode::SET);
        let ended = client.call(KvRequest::set("k", "v", 0, 0)).await;
        assert_eq!((ended.status(), ended.info.attempts()), (status, 1));
        answers_once(&cluster, status, opcode::SET);
        let ended = current.call(KvRequest::set("k", "v", 0, 0)).await;
        assert_eq!((ended.status(), ended.reasons()), (0, vec![reason]));
        assert_eq!(ended.delays(), [1], "{status:#x}");
    }
    // Out of memory is permanent, also with the option.
    answers_once(&cluster, status::ENOMEM, opcode::GET);
    let ended = current.call(KvRequest::get("k")).await;
    assert_eq!((ended.status(), ended.info.attempts()), (status::ENOMEM, 1));
}

/// C38: the server reports how long it throttles, and the retry is sent after that time.
#[tokio::test]
async fn a_throttled_request_waits_as_long_as_the_server_says() {
    let cluster = Cluster::start(1).await.expect("a cluster");
    let client = Client::of(&cluster).current_server_codes();
    let pause = Duration::from_millis(40);
    let throttled = Step::status(status::EWOULD_THROTTLE).throttle_duration(pause);
    cluster.node(0).script().repeat(&throttled, 2);
    let ended = client.call(KvRequest::get("k")).await;
    assert_eq!(ended.status(), status::KEY_ENOENT);
    // Sixteen bits on the wire, so not exact to the microsecond.
    for delay in ended.delays() {
        assert!((39..=41).contains(&delay), "{delay}");
    }
    assert_eq!(ended.info.attempts(), 3);
}
