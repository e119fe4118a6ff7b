use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reattempt::reason::{NODE_NOT_AVAILABLE, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use reattempt::{RetryInfoHandle, StopReason};
use reattempt_clients::kv;
use reattempt_clients::kv::client::{ClientError, KvRequest};
use reattempt_couchbase::ConfigPoller;
use reattempt_couchbase::cluster_config::ConfigPollerOptions;
use reattempt_couchbase::kv::Status;
use reattempt_tests::kv::{Client, Ended, until};
use tokio::task::JoinSet;

use crate::server::Memcached;

/// Half of them read, half of them append.
const CALLERS: usize = 16;

/// State shared by all callers.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    ended: AtomicUsize,
    /// Writes whose result is unknown.
    lost: AtomicUsize,
    /// Reads that were retried because their response was lost.
    asked_again: AtomicUsize,
    /// The watch on each caller's current call.
    calls: Mutex<Vec<Option<RetryInfoHandle>>>,
}

impl Load {
    fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// The number of calls whose connection was refused.
    fn refused(&self) -> usize {
        let calls = self.calls.lock().expect("the calls");
        let refused = |watch: &&RetryInfoHandle| watch.info().count(NODE_NOT_AVAILABLE) > 0;
        calls.iter().flatten().filter(refused).count()
    }

    /// Makes sequential calls until the load is over.
    async fn caller(self: Arc<Self>, number: usize, client: Client) {
        let mut turn = 0;
        while !self.over.load(Ordering::SeqCst) {
            let key = format!("k{number}");
            let reads = number % 2 == 0;
            let request = if reads {
                KvRequest::get(key)
            } else if turn % 2 == 0 {
                KvRequest::set(key, "v", 0, 0)
            } else {
                KvRequest::append(key, "w")
            };
            let (watch, call) = client.begin(request);
            self.calls.lock().expect("the calls")[number] = Some(watch);
            let ended = call.await;
            if !reads && ended.outcome.is_err() {
                was_not_to_be_retried(&ended);
                self.lost.fetch_add(1, Ordering::SeqCst);
            } else {
                if reads && ended.info.count(SOCKET_CLOSED_WHILE_IN_FLIGHT) > 0 {
                    self.asked_again.fetch_add(1, Ordering::SeqCst);
                }
                // After the restart there are no documents.
                let status = ended.status();
                let empty = matches!(status, Status::KEY_ENOENT | Status::NOT_STORED);
                assert!(status == Status::SUCCESS || empty, "{status}");
            }
            self.ended.fetch_add(1, Ordering::SeqCst);
            turn += 1;
        }
    }
}

/// The last attempt of this write was in flight when the server was killed, so its result is
/// unknown.
fn was_not_to_be_retried(ended: &Ended) {
    let error = ended.error();
    assert!(
        matches!(error, ClientError::ClosedInFlight { .. }),
        "{error}"
    );
    assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
    let last = ended
        .info
        .records()
        .next_back()
        .and_then(|record| record.failure);
    assert_eq!(
        last.map(|failure| failure.reason),
        Some(SOCKET_CLOSED_WHILE_IN_FLIGHT)
    );
}

/// C12, C13: every read succeeds; a write is lost only if it was in flight when the server was
/// killed.
#[tokio::test]
async fn a_restart_under_load_loses_no_retryable_call() {
    let Some(mut server) = Memcached::start(&[]).await else {
        return;
    };
    let client = server.client().await;
    // It has no configurations, so the poller finds none and changes nothing.
    let seed = server.address().parse().expect("an address");
    let poller = ConfigPoller::spawn(
        client.store.clone(),
        kv::fetch_with(client.options.clone()),
        ConfigPollerOptions::new().seeds([seed]),
    );
    let client = client.config_poll(&poller);
    let load = Arc::new(Load::default());
    *load.calls.lock().expect("the calls") = vec![None; CALLERS];
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        callers.spawn(Arc::clone(&load).caller(number, client.clone()));
    }
    until(|| load.ended() > 500).await;
    let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
    // Freezing is not immediate: the server may still have answered. So repeat until it has not.
    for _ in 0..50 {
        let connection = client.routed.node(&server.address()).connect().await;
        let connection = connection.expect("a connection");
        server.freeze();
        until(|| connection.in_flight() == CALLERS).await;
        server.kill();
        // All calls have been refused: the reads on their retry, the writes on their next call.
        until(|| load.refused() == CALLERS).await;
        let before = load.ended();
        server.restart().await;
        until(|| load.ended() > before + 500).await;
        if count(&load.lost) > 0 && count(&load.asked_again) > 0 {
            break;
        }
    }
    load.over.store(true, Ordering::SeqCst);
    while let Some(caller) = callers.join_next().await {
        caller.expect("a caller");
    }
    assert!(count(&load.lost) > 0 && count(&load.asked_again) > 0);
    assert!(client.store.load().is_none());
}
