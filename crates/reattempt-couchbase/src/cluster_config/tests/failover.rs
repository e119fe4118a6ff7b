//! A node fails, and some time later the other nodes have its vbuckets under a new revision: when
//! clients learn of it, in milliseconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::strategy::BestEffort;
use reattempt::test_util::ms;
use reattempt::{
    Backend, Call, CallContext, ConfigPollLayer, DeadlineLayer, HasCallContext, RetryLayer, Stage,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use crate::cluster_config::*;
use crate::kv::{KvClassifier, attach_idempotency};
use crate::testing::{Answer, Lost, Request, config, node};

const DEAD: usize = 0;
const HEIR: usize = 1;

/// Three nodes; the first one has all keys and is dead. The others have the new configuration from
/// `comes` on.
fn dead_until(comes: u64, options: ConfigPollerOptions) -> (ConfigPoller, ConfigStore, Instant) {
    let (store, start) = (ConfigStore::new(), Instant::now());
    store.compare_and_swap(config(1, 1, 3, DEAD));
    let fetch = move |asked: Address, _| async move {
        assert_ne!(asked, node(DEAD + 1), "the node is dead");
        let there = start.elapsed() >= ms(comes);
        Ok::<_, BoxError>(there.then(|| config(1, 2, 3, HEIR)))
    };
    let poller = ConfigPoller::spawn(store.clone(), fetch, options);
    (poller, store, start)
}

fn defaults() -> ConfigPollerOptions {
    // The second of three: the dead node is never the next one.
    ConfigPollerOptions::new().randomness(reattempt::backoff::Randomness::Fixed(0.34))
}

fn never_polls() -> ConfigPollerOptions {
    defaults().interval(Duration::MAX)
}

/// How many milliseconds after the start the new configuration is current, with an error of a call
/// every millisecond or with none.
async fn known_at(comes: u64, options: ConfigPollerOptions, errors: bool) -> u128 {
    let (poller, store, start) = dead_until(comes, options);
    let erring = async {
        loop {
            if errors {
                poller.refresh(Some(&node(DEAD + 1)));
            }
            sleep(ms(1)).await;
        }
    };
    let mut configs = store.watch();
    let newer = |now: &Option<Arc<ClusterConfig>>| {
        let now = now.as_ref().map(|config| config.revision());
        now == Some(Revision::new(1, 2))
    };
    tokio::select! {
        () = erring => {}
        found = configs.wait_for(newer) => drop(found.expect("a store")),
    }
    start.elapsed().as_millis()
}

/// C47: with polls only, the next poll finds it, at most an interval later.
#[tokio::test(start_paused = true)]
async fn by_polls_alone_it_takes_until_the_next_one() {
    for (comes, known) in [(0, 2500), (1, 2500), (2500, 2500), (2501, 5000)] {
        assert_eq!(known_at(comes, defaults(), false).await, known, "{comes}");
    }
}

/// C47: with errors, it is found at most a floor after it exists.
#[tokio::test(start_paused = true)]
async fn by_errors_alone_it_takes_until_the_floor_is_over() {
    for (comes, known) in [(0, 0), (1, 50), (1000, 1000), (1001, 1050), (1049, 1050)] {
        assert_eq!(known_at(comes, never_polls(), true).await, known, "{comes}");
    }
}

/// C47: with both it is found as soon as with errors, and a poll delays the next refresh by at most
/// the floor.
#[tokio::test(start_paused = true)]
async fn by_both_it_takes_no_longer_than_by_errors() {
    let floor = || defaults().floor(ms(70));
    // Requests on error at 2450 and 2520; the poll at 2500 is within the floor.
    for (comes, known) in [(1, 70), (2451, 2520), (2501, 2520), (2521, 2590)] {
        assert_eq!(known_at(comes, floor(), true).await, known, "{comes}");
    }
}

/// A call for a key of the dead node at this time: when it succeeded, and after how many attempts.
async fn call(poller: Option<&ConfigPoller>, store: &ConfigStore, at: Instant) -> (Instant, usize) {
    sleep_until(at).await;
    let (attempts, of_client) = (Arc::new(Mutex::new(0)), store.clone());
    let count = Arc::clone(&attempts);
    let poll = poller.cloned().map(StaleKvConfig::new);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
        .option_layer(poll.map(ConfigPollLayer::new))
        .service_fn(move |call: Call<Request>| {
            *count.lock().unwrap() += 1;
            let config = of_client.load().unwrap();
            let owner = config.route(call.request.key.unwrap()).unwrap().node;
            let dead = owner == Some(DEAD);
            async move {
                if dead {
                    return Err(Lost::At(Stage::Dispatch));
                }
                Ok(Answer::of(0))
            }
        });
    let mut call = Call::new(Request::get(b"k"));
    attach_idempotency(&mut call);
    assert_eq!(
        service.oneshot(call).await.map(|answer| answer.status),
        Ok(0)
    );
    let attempts = *attempts.lock().unwrap();
    (Instant::now(), attempts)
}

/// C5 C47: its own refresh found nothing yet; the back-off ends when another call's refresh does.
#[tokio::test(start_paused = true)]
async fn a_configuration_found_by_another_call_ends_the_back_off() {
    // The first call fails at 0, 1, 3, 7 … 255, 511 and would at 1011; its refreshes find nothing.
    let (poller, store, start) = dead_until(520, never_polls());
    let (first, second) = tokio::join!(
        call(Some(&poller), &store, start),
        call(Some(&poller), &store, start + ms(600)),
    );
    assert_eq!(second, (start + ms(600), 2));
    assert_eq!(first, (start + ms(600), 11));
}

/// C47: single flight. All calls fail at the same instant, and again while the polled node is slow
/// to answer.
#[tokio::test(start_paused = true)]
async fn ten_thousand_errors_at_once_lead_to_one_fetch() {
    let (store, start) = (ConfigStore::new(), Instant::now());
    store.compare_and_swap(config(1, 1, 3, DEAD));
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let fetch = move |_: Address, _| {
        *count.lock().unwrap() += 1;
        async {
            sleep(ms(5)).await;
            Ok::<_, BoxError>(Some(config(1, 2, 3, HEIR)))
        }
    };
    let poller = ConfigPoller::spawn(store.clone(), fetch, never_polls());
    let mut calls = JoinSet::new();
    for _ in 0..10_000 {
        let (poller, store) = (poller.clone(), store.clone());
        calls.spawn(async move { call(Some(&poller), &store, start).await });
    }
    // Attempts at 0, 1 and 3 fail; the one at 5 reaches the new owner.
    for ended in calls.join_all().await {
        assert_eq!(ended, (start + ms(5), 4));
    }
    assert_eq!(*asked.lock().unwrap(), 1);
}

/// C47, for comparison: a call whose stack does not watch the configuration waits until the end of
/// its back-off.
#[tokio::test(start_paused = true)]
async fn without_config_poll_a_call_sleeps_on_past_the_configuration() {
    let (_poller, store, start) = dead_until(520, defaults());
    let ended = call(None, &store, start).await;
    // Known at 2500; its attempts are at 511, 1011 … 2511.
    assert_eq!(ended, (start + ms(2511), 14));
}

/// RFC 0024, Conclusion: a node that accepts a request and never answers is an error like any
/// other. An attempt that the caller cancelled is not.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_out_at_the_deadline_asks_another_node() {
    for (deadline, leaves, known) in [(100, 9999, 100), (9999, 100, 2500)] {
        let (poller, store, start) = dead_until(50, defaults());
        let silent = |call: Call<Request>| async move {
            let reporter = call.context().map(CallContext::reporter);
            reporter.unwrap().backend(Backend::new("n1:11210"));
            std::future::pending::<Result<Answer, Lost>>().await
        };
        let observer = Arc::new(poller.clone());
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(ms(deadline)))
            .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()).observer(observer))
            .layer(ConfigPollLayer::new(StaleKvConfig::new(poller.clone())))
            .service_fn(silent);
        let call = service.oneshot(Call::new(Request::get(b"k")));
        let ended = tokio::time::timeout(ms(leaves), call).await;
        let ended = ended.ok().and_then(Result::err);
        assert_eq!(ended, (deadline < leaves).then_some(Lost::Elapsed));
        let mut configs = store.watch();
        let newer = |now: &Option<Arc<ClusterConfig>>| {
            now.as_ref().map(|now| now.revision()) == Some(Revision::new(1, 2))
        };
        let found = tokio::time::timeout(ms(9999), configs.wait_for(newer)).await;
        drop(found.expect("in time").expect("a store"));
        assert_eq!(start.elapsed(), ms(known));
        drop(poller);
    }
}
