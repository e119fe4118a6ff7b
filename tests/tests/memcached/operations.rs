use std::time::Duration;

use reattempt::StopReason;
use reattempt_clients::kv::client::KvRequest;
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_tests::kv::{Client, Ended};

use crate::server::Memcached;

/// Enough time for an attempt on an open connection, also on a busy machine.
const SHORT: Duration = Duration::from_millis(500);

/// Sends this request, and checks that its first attempt was answered with this status.
async fn ends(client: &Client, request: KvRequest, status: Status) {
    at_once(&client.call(request).await, status);
}

/// Checks that the first attempt was answered with this status.
fn at_once(ended: &Ended, status: Status) {
    assert_eq!(ended.status(), status);
    assert_eq!(ended.info.attempts(), 1);
    let stopped = if status == Status::SUCCESS {
        StopReason::Success
    } else {
        StopReason::Fatal
    };
    assert_eq!(ended.info.stopped(), Some(stopped));
}

fn succeeds(ended: &Ended) {
    at_once(ended, Status::SUCCESS);
}

#[tokio::test]
async fn documents_are_written_and_read() {
    let Some(server) = Memcached::start(&[]).await else {
        return;
    };
    let client = server.client().await;
    ends(&client, KvRequest::get("k"), Status::KEY_ENOENT).await;
    succeeds(&client.call(KvRequest::set("k", "one", 7, 0)).await);
    let read = client.call(KvRequest::get("k")).await;
    succeeds(&read);
    assert_eq!(read.value(), "one");
    assert_eq!(read.outcome.expect("an answer").flags(), Some(7));
    succeeds(&client.call(KvRequest::append("k", " two")).await);
    succeeds(&client.call(KvRequest::prepend("k", "zero ")).await);
    let whole = client.call(KvRequest::get("k")).await;
    assert_eq!(whole.value(), "zero one two");
    for counter in [5, 8] {
        let counted = client.call(KvRequest::increment("n", 3, 5, 0)).await;
        succeeds(&counted);
        assert_eq!(counted.outcome.expect("an answer").counter(), Some(counter));
    }
    succeeds(&client.call(KvRequest::touch("k", 100)).await);
    let whole = client.call(KvRequest::get_and_touch("k", 100)).await;
    assert_eq!(whole.value(), "zero one two");
    succeeds(&client.call(KvRequest::delete("k")).await);
    ends(&client, KvRequest::delete("k"), Status::KEY_ENOENT).await;
}

/// C36, C37: the server's status about the document is returned to the caller.
#[tokio::test]
async fn a_write_that_does_not_fit_what_is_there_is_the_callers() {
    let Some(server) = Memcached::start(&[]).await else {
        return;
    };
    let client = server.client().await;
    succeeds(&client.call(KvRequest::add("k", "a", 0, 0)).await);
    ends(&client, KvRequest::add("k", "b", 0, 0), Status::KEY_EEXISTS).await;
    ends(
        &client,
        KvRequest::replace("other", "b", 0, 0),
        Status::KEY_ENOENT,
    )
    .await;
    ends(&client, KvRequest::append("other", "b"), Status::NOT_STORED).await;
    ends(
        &client,
        KvRequest::increment("k", 1, 0, 0),
        Status::DELTA_BADVAL,
    )
    .await;
    let large = vec![b'x'; 2 << 20];
    ends(&client, KvRequest::set("large", large, 0, 0), Status::E2BIG).await;
}

/// Two writers that read the same version: one succeeds, the other reads again and then succeeds.
#[tokio::test]
async fn of_two_writers_with_one_cas_one_meets_a_conflict() {
    let Some(server) = Memcached::start(&[]).await else {
        return;
    };
    let client = server.client().await;
    client.call(KvRequest::set("k", "0", 0, 0)).await;
    let cas = async || {
        let read = client.call(KvRequest::get("k")).await;
        read.outcome.expect("an answer").cas
    };
    let version = cas().await;
    let write =
        |value: &'static str, cas| client.call(KvRequest::set("k", value, 0, 0).with_cas(cas));
    let (one, two) = tokio::join!(write("1", version), write("2", version));
    let mut both = [one.status(), two.status()];
    both.sort_unstable();
    assert_eq!(both, [Status::SUCCESS, Status::KEY_EEXISTS]);
    // A conflict is not transient: a retry would meet it again.
    for ended in [&one, &two] {
        at_once(ended, ended.status());
    }
    let newer = cas().await;
    assert_ne!(newer, version);
    succeeds(&write("3", newer).await);
    assert_eq!(client.call(KvRequest::get("k")).await.value(), "3");
}

/// C16, C36: 0x82 is known, and not on the list.
#[tokio::test]
async fn out_of_memory_is_final() {
    // Without evictions it rejects what does not fit.
    let Some(server) = Memcached::start(&["-m", "8", "-M"]).await else {
        return;
    };
    let client = server.client().await;
    let value = vec![b'x'; 500_000];
    let mut refused = None;
    for n in 0..400 {
        let set = KvRequest::set(format!("k{n}"), value.clone(), 0, 0);
        let ended = client.call(set).await;
        if ended.status() != Status::SUCCESS {
            refused = Some(ended);
            break;
        }
    }
    let refused = refused.expect("it was full at some time");
    at_once(&refused, Status::ENOMEM);
    let failure = refused.info.records().find_map(|record| record.failure);
    assert_eq!(failure.and_then(|failure| failure.code), Some(0x82));
    // Earlier documents are still there, on the same connection.
    let first = client.call(KvRequest::get("k0")).await;
    assert_eq!(first.value().len(), value.len());
    succeeds(&client.call(KvRequest::delete("k0")).await);
    succeeds(&client.call(KvRequest::set("k0", value, 0, 0)).await);
}

/// C7: the server waits for more of a command that it does not know, and takes the next request for
/// it. The deadline ends the call and frees its opaque; after closing that connection, the client
/// uses a new one.
#[tokio::test]
async fn a_command_that_is_never_answered_ends_at_the_deadline() {
    let Some(server) = Memcached::start(&[]).await else {
        return;
    };
    for (request, name) in [
        (KvRequest::get_and_lock("k", 15), "GETL"),
        (KvRequest::new(Opcode::HELLO, "agent"), "HELLO"),
    ] {
        let client = server.client().await;
        succeeds(&client.call(KvRequest::set("k", name, 0, 0)).await);
        let node = client.routed.node(&server.address());
        let connection = node.connect().await.expect("a connection");
        let ended = client.clone().limit(SHORT).call(request).await;
        let elapsed = ended.elapsed();
        assert_eq!(elapsed.info.attempts(), 1, "{name}");
        assert_eq!(elapsed.info.stopped(), Some(StopReason::Deadline), "{name}");
        // Neither is on the list of idempotent operations, and both were sent.
        assert!(elapsed.ambiguous, "{name}");
        assert_eq!(connection.outstanding(), 0, "{name}");
        node.disconnect(connection.id());
        let read = client.call(KvRequest::get("k")).await;
        succeeds(&read);
        assert_eq!(read.value(), name);
        let answer = read.outcome.expect("an answer");
        assert_ne!(answer.connection(), connection.id());
    }
}

/// Many concurrent requests on one connection, each with its own response.
#[tokio::test]
async fn what_is_sent_together_finds_its_answers() {
    let Some(server) = Memcached::start(&[]).await else {
        return;
    };
    let client = server.client().await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..500 {
        let client = client.clone();
        calls.spawn(async move {
            let (key, value) = (format!("k{n}"), format!("value {n}"));
            let set = KvRequest::set(key.clone(), value.clone(), 0, 0);
            succeeds(&client.call(set).await);
            let read = client.call(KvRequest::get(key)).await;
            assert_eq!(read.value(), value);
            read.outcome.expect("an answer").connection()
        });
    }
    let mut connections = std::collections::HashSet::new();
    while let Some(connection) = calls.join_next().await {
        connections.insert(connection.expect("a caller"));
    }
    assert_eq!(connections.len(), 1);
}
