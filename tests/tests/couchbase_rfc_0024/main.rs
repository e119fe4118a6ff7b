//! RFC 0024, Fast Failover, on the wire: the order of the requests that the nodes saw. Rule numbers
//! are those of docs/conformance/couchbase.md.

mod nodes;
mod not_my_vbucket;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt::RetryInfoHandle;
use reattempt::backoff::Backoff;
use reattempt::reason::{KV_NOT_MY_VBUCKET, NODE_NOT_AVAILABLE};
use reattempt::strategy::BestEffort;
use reattempt_couchbase::cluster_config::ConfigPollerOptions;
use reattempt_couchbase::{Address, ConfigPoller, FetchConfig, Revision};
use reattempt_testbed::kv::client::KvRequest;
use reattempt_testbed::kv::{self, Cluster, Step, opcode, status};
use reattempt_tests::kv::{Client, addresses, data, until, within};
use tokio::sync::watch;
use tokio::task::JoinSet;

const NEVER: Duration = Duration::from_secs(3600);

/// Counts how often the poller has fetched from a node.
#[derive(Clone, Default)]
struct Fetches {
    count: Arc<AtomicUsize>,
    /// Whether fetches are blocked.
    held: Arc<watch::Sender<bool>>,
}

impl Fetches {
    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

/// A poller with connections of its own; it polls only if the options say so.
fn poller(
    cluster: &Cluster,
    client: &Client,
    options: ConfigPollerOptions,
) -> (ConfigPoller, Fetches) {
    let fetches = Fetches::default();
    let (counted, fetch) = (
        fetches.clone(),
        Arc::new(kv::fetch_with(client.options.clone())),
    );
    let fetch = move |node: Address, known: Option<Revision>| {
        counted.count.fetch_add(1, Ordering::SeqCst);
        let (fetch, mut held) = (Arc::clone(&fetch), counted.held.subscribe());
        async move {
            held.wait_for(|held| !held).await.expect("the test lives");
            fetch.fetch(node, known).await
        }
    };
    let options = options.seeds(addresses(cluster));
    (
        ConfigPoller::spawn(client.store.clone(), fetch, options),
        fetches,
    )
}

fn never_polls() -> ConfigPollerOptions {
    ConfigPollerOptions::new()
        .interval(NEVER)
        .fetch_timeout(Duration::from_secs(10))
}

/// Three nodes, and a client that knows them and has written a key owned by the first.
async fn three_nodes() -> (Cluster, Client, String) {
    let cluster = Cluster::start(3).await.expect("a cluster");
    let client = Client::of(&cluster);
    let key = cluster.key_of(0, "k").expect("a key");
    let written = client.call(KvRequest::set(key.clone(), "v", 0, 0)).await;
    assert_eq!(written.status(), 0);
    (cluster, client, key)
}

fn rev(client: &Client) -> Option<(i64, i64)> {
    client
        .store
        .revision()
        .map(|revision| (revision.epoch, revision.rev))
}

/// C47, C48: the failure causes a fetch from another node, the newer configuration moves the key,
/// and the retry is sent.
#[tokio::test]
async fn a_failure_fetches_the_configuration_that_the_retry_goes_by() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls());
    let client = client.config_poll(&poller);
    cluster.fail_over(0).await;
    client.has_lost(&cluster, 0).await;
    let ended = client.call(KvRequest::get(key.clone())).await;
    assert_eq!(ended.value(), "v");
    assert_eq!(ended.reasons(), [NODE_NOT_AVAILABLE]);
    assert_eq!((fetches.count(), rev(&client)), (1, Some((1, 2))));
    // First the configuration, then the key at its new node.
    let owner = cluster.owner_of(key.as_bytes()).expect("an owner");
    assert_ne!(owner, 0);
    let read = data(&cluster, owner)
        .into_iter()
        .find(|seen| seen.opcode == opcode::GET);
    let read = read.expect("the read at the new owner");
    let asked = (1..3)
        .flat_map(|node| cluster.node(node).seen())
        .filter(|seen| seen.opcode == opcode::GET_CLUSTER_CONFIG)
        .map(|seen| seen.arrived)
        .min()
        .expect("a node was asked");
    assert!(asked <= read.arrived);
    let first = ended
        .info
        .records()
        .next()
        .and_then(|record| record.backend.clone());
    let dead = cluster.node(0).addr().to_string();
    assert_eq!(first.map(|node| node.as_str().to_owned()), Some(dead));
}

/// C47: without the layer, the call tries the dead node until the next poll.
#[tokio::test]
async fn without_config_poll_the_dead_node_is_tried_until_a_poll() {
    let (cluster, client, key) = three_nodes().await;
    let options = never_polls().interval(Duration::from_millis(400));
    let (poller, fetches) = poller(&cluster, &client, options);
    cluster.fail_over(0).await;
    client.has_lost(&cluster, 0).await;
    let without = client.call(KvRequest::get(key)).await;
    assert_eq!(without.value(), "v");
    assert!(
        fetches.count() >= 1,
        "it was a poll that found the new node"
    );
    drop(poller);

    let (cluster, client, key) = three_nodes().await;
    let (poller, _) = self::poller(&cluster, &client, never_polls());
    let client = client.config_poll(&poller);
    cluster.fail_over(0).await;
    client.has_lost(&cluster, 0).await;
    let with = client.call(KvRequest::get(key)).await;
    assert_eq!(with.value(), "v");
    let (with, without) = (with.info.attempts(), without.info.attempts());
    assert!(with < without, "{with} attempts with, {without} without");
}

/// C47: single flight, without a floor. Half of the calls are in flight on one connection when
/// their node dies, so that all fail at once; the others fail while the fetch that the first
/// failure started is in progress.
#[tokio::test]
async fn ten_thousand_errors_at_once_lead_to_one_fetch_on_the_wire() {
    const HALF: usize = 5_000;
    let cluster = Cluster::start(3).await.expect("a cluster");
    let client = Client::with(&cluster, |options| options.max_in_flight(HALF));
    let key = cluster.key_of(0, "k").expect("a key");
    client.call(KvRequest::set(key.clone(), "v", 0, 0)).await;
    let options = never_polls().floor(Duration::ZERO).fetch_timeout(NEVER);
    let (poller, fetches) = poller(&cluster, &client, options);
    // Only a new configuration ends the back-off.
    let sleeps = BestEffort::with_backoff(Backoff::constant(NEVER));
    let client = client
        .strategy(sleeps)
        .limit(2 * NEVER)
        .config_poll(&poller);
    let script = cluster.node(0).script().clone();
    script.repeat(&Step::hang().only(opcode::GET), HALF);
    fetches.hold(true);
    let (mut calls, mut watches) = (JoinSet::new(), Vec::new());
    let mut begin = |calls: &mut JoinSet<_>| {
        for _ in 0..HALF {
            let (watch, ended) = client.begin(KvRequest::get(key.clone()));
            watches.push(watch);
            calls.spawn(ended);
        }
    };
    begin(&mut calls);
    until(|| script.remaining() == 0).await;
    cluster.fail_over(0).await;
    until(|| fetches.count() > 0).await;
    begin(&mut calls);
    let failed = |watch: &RetryInfoHandle| watch.info().records().count() == 1;
    until(|| watches.iter().all(failed)).await;
    fetches.hold(false);
    while let Some(ended) = calls.join_next().await {
        let ended = ended.expect("a call");
        assert_eq!((ended.value(), ended.info.attempts()), ("v".to_owned(), 2));
    }
    assert_eq!(fetches.count(), 1);
}

/// C47: the node is dead for a while before the failover. The first error after that fetches once,
/// and every call is sent once more, to the new owner, also those that fetched too early and wait
/// in their back-off.
#[tokio::test]
async fn after_a_failover_one_fetch_and_one_attempt_serve_every_call() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls().floor(Duration::ZERO));
    // No back-off ends within the test's time limit.
    let sleeps = BestEffort::with_backoff(Backoff::constant(NEVER));
    let client = client
        .strategy(sleeps)
        .limit(2 * NEVER)
        .config_poll(&poller);
    cluster.kill(0).await;
    client.has_lost(&cluster, 0).await;
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let request = if n % 2 == 0 {
            KvRequest::get(key.clone())
        } else {
            KvRequest::set(key.clone(), "v", 0, 0)
        };
        let (watch, ended) = client.begin(request);
        calls.spawn(ended);
        until(|| watch.info().records().count() == 1).await;
    }
    // All calls wait; no fetch is in progress, and all earlier ones found nothing newer.
    let asked = poller.refresh(None);
    asked.expect("there is no floor").done().await;
    assert_eq!(rev(&client), Some((1, 1)));
    cluster.fail_over(0).await;
    let before = fetches.count();
    let first = client.call(KvRequest::get(key.clone())).await;
    assert_eq!((first.value(), first.info.attempts()), ("v".to_owned(), 2));
    while let Some(ended) = calls.join_next().await {
        let ended = ended.expect("a call");
        assert_eq!((ended.status(), ended.info.attempts()), (0, 2));
        assert_eq!(ended.reasons(), [NODE_NOT_AVAILABLE]);
    }
    assert_eq!(fetches.count() - before, 1);
    // Recovered: no attempt fails.
    let ended = client.call(KvRequest::get(key)).await;
    assert_eq!((ended.value(), ended.info.attempts()), ("v".to_owned(), 1));
}

/// C48: the whole cluster moved to new addresses; its old nodes are gone.
#[tokio::test]
async fn where_all_known_nodes_are_gone_the_seeds_find_the_cluster() {
    let (cluster, client, key) = three_nodes().await;
    let new = Cluster::builder().revision(1, 2).start_cluster(1).await;
    let new = new.expect("a cluster");
    let (poller, fetches) = poller(&new, &client, never_polls());
    let client = client.config_poll(&poller);
    for node in 0..3 {
        cluster.kill(node).await;
    }
    client.has_lost(&cluster, 0).await;
    let ended = client.call(KvRequest::set(key, "w", 0, 0)).await;
    assert_eq!(ended.status(), 0);
    assert_eq!(ended.reasons(), [NODE_NOT_AVAILABLE]);
    // First the two known nodes, then the seed.
    assert_eq!((fetches.count(), rev(&client)), (3, Some((1, 2))));
    assert_eq!(data(&new, 0).len(), 1);
}

/// C48: any node but the one that failed.
#[tokio::test]
async fn the_node_that_failed_is_not_asked() {
    for _ in 0..8 {
        let (cluster, client, key) = three_nodes().await;
        let (poller, fetches) = poller(&cluster, &client, never_polls());
        let client = client.config_poll(&poller);
        let before = cluster.node(0).seen().len();
        cluster.node(0).script().push(Step::close_before());
        cluster.move_vbuckets(0, 1);
        let ended = client.call(KvRequest::get(key)).await;
        assert_eq!(ended.value(), "v");
        assert_eq!(fetches.count(), 1);
        let asked = cluster.node(0).seen().split_off(before);
        let polls = asked
            .iter()
            .filter(|seen| seen.opcode == opcode::GET_CLUSTER_CONFIG && !seen.extras.is_empty());
        assert_eq!(polls.count(), 0);
    }
}

/// C33: the response itself carries the configuration; no fetch and no wait is needed.
#[tokio::test]
async fn a_configuration_in_the_answer_is_used_at_once() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls());
    let client = client.config_poll(&poller);
    cluster.move_vbuckets(0, 1);
    let ended = client.call(KvRequest::get(key)).await;
    assert_eq!(ended.value(), "v");
    assert_eq!(ended.reasons(), [KV_NOT_MY_VBUCKET]);
    assert_eq!(ended.info.attempts(), 2);
    assert_eq!((fetches.count(), rev(&client)), (0, Some((1, 2))));
}

/// C33: without one, another node is asked.
#[tokio::test]
async fn an_empty_answer_fetches_the_configuration() {
    let (cluster, client, key) = three_nodes().await;
    let options = never_polls().floor(Duration::from_secs(60));
    let (poller, fetches) = poller(&cluster, &client, options);
    let client = client.config_poll(&poller);
    cluster.move_vbuckets(0, 1);
    // The old node's responses never say where the key went.
    let empty = Step::status(status::NOT_MY_VBUCKET);
    cluster.node(0).script().repeat(&empty, 1000);
    let ended = client.call(KvRequest::get(key)).await;
    assert_eq!(ended.value(), "v");
    assert_eq!(ended.reasons(), [KV_NOT_MY_VBUCKET]);
    assert_eq!((fetches.count(), rev(&client)), (1, Some((1, 2))));
}

/// C50: an older or equal configuration changes nothing; a higher epoch wins over any revision.
#[tokio::test]
async fn only_what_is_newer_gets_into_force() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls());
    let client = client.config_poll(&poller);
    cluster.set_revision(5, 5);
    cluster.node(0).script().push(Step::not_my_vbucket());
    client.call(KvRequest::get(key.clone())).await;
    assert_eq!(rev(&client), Some((5, 5)));
    let in_force = client.store.load().expect("a configuration");
    for (epoch, revision) in [(5, 5), (5, 4), (4, 99), (0, 0)] {
        cluster.set_revision(epoch, revision);
        cluster.node(0).script().push(Step::not_my_vbucket());
        let ended = client.call(KvRequest::get(key.clone())).await;
        assert_eq!(ended.value(), "v");
        let now = client.store.load().expect("a configuration");
        assert!(Arc::ptr_eq(&now, &in_force), "{epoch}/{revision}");
    }
    cluster.set_revision(6, 1);
    cluster.node(0).script().push(Step::not_my_vbucket());
    client.call(KvRequest::get(key)).await;
    assert_eq!((fetches.count(), rev(&client)), (0, Some((6, 1))));
}

/// C47, C49: polls run at their interval without calls.
#[tokio::test]
async fn a_poll_finds_a_newer_configuration_without_any_call() {
    let (cluster, client, _) = three_nodes().await;
    let options = never_polls()
        .interval(Duration::from_millis(20))
        .floor(Duration::from_millis(1));
    let (_poller, fetches) = poller(&cluster, &client, options);
    cluster.bump_rev();
    // A new connection made for a fetch may bring the configuration before the fetch does.
    until(|| rev(&client) == Some((1, 2)) && fetches.count() >= 1).await;
}

/// The poller's task ends with its last owner.
#[tokio::test]
async fn the_poller_ends_with_its_owner() {
    let (cluster, client, key) = three_nodes().await;
    let options = never_polls()
        .interval(Duration::from_millis(5))
        .floor(Duration::from_millis(1));
    let (poller, fetches) = poller(&cluster, &client, options);
    let client = client.config_poll(&poller);
    drop(poller);
    let so_far = fetches.count();
    until(|| fetches.count() > so_far).await;
    within(client.call(KvRequest::get(key))).await;
    drop(client);
    // The task held the other reference.
    until(|| Arc::strong_count(&fetches.count) == 1).await;
}
