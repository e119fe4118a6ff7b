//! RFC 0024, Fast Failover, on the wire: many calls at once, a rebalance, and nodes as services.
//! Rule numbers are those of docs/conformance/couchbase.md.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::reason::KV_NOT_MY_VBUCKET;
use reattempt::strategy::BestEffort;
use reattempt::{Call, ConfigPollLayer, RetryInfo, RetryInfoHandle};
use reattempt_clients::kv;
use reattempt_clients::kv::client::{KvRequest, NodeClient};
use reattempt_couchbase::cluster_config::{ConfigPollerOptions, Service};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::{
    Address, ConfigPoller, FetchConfig, KvClientLayer, Network, Revision, StaleKvConfig,
};
use reattempt_testbed::kv::{Cluster, Step};
use reattempt_tests::kv::{Client, addresses, seeds, until};
use reattempt_tests::{PATIENCE, within};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{ServiceBuilder, ServiceExt, service_fn};

const NEVER: Duration = Duration::from_secs(3600);

/// From which nodes the poller has fetched.
#[derive(Clone, Default)]
struct Fetches {
    nodes: Arc<Mutex<Vec<Address>>>,
    /// Whether fetches are blocked.
    held: Arc<watch::Sender<bool>>,
}

impl Fetches {
    fn count(&self) -> usize {
        self.nodes.lock().expect("the nodes").len()
    }

    fn asked(&self, node: &Address) -> bool {
        self.nodes.lock().expect("the nodes").contains(node)
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
        let mut nodes = counted.nodes.lock().expect("the nodes");
        nodes.push(node.clone());
        drop(nodes);
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
    assert_eq!(written.status(), Status::SUCCESS);
    (cluster, client, key)
}

fn rev(client: &Client) -> Option<(i64, i64)> {
    client
        .store
        .revision()
        .map(|revision| (revision.epoch, revision.rev))
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
    script.repeat(&Step::hang().only(Opcode::GET), HALF);
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

/// C48, C51: with a fast-forward map the node that failed is not the vbucket's owner.
#[tokio::test]
async fn after_a_fast_forward_the_node_that_failed_is_not_asked() {
    for _ in 0..6 {
        let (cluster, client, key) = three_nodes().await;
        cluster.begin_rebalance(0, 1);
        // The configuration with the fast-forward map arrives with the rejection.
        cluster.node(0).script().push(Step::not_my_vbucket());
        assert_eq!(client.call(KvRequest::get(key.clone())).await.value(), "v");
        cluster.hand_over();
        let moved = client.call(KvRequest::get(key.clone())).await;
        assert_eq!(moved.value(), "v");
        let options = never_polls().floor(Duration::from_secs(60));
        let (poller, fetches) = poller(&cluster, &client, options);
        let client = client.config_poll(&poller);
        cluster.node(1).script().push(Step::close_before());
        assert_eq!(client.call(KvRequest::get(key)).await.value(), "v");
        until(|| fetches.count() == 1).await;
        assert!(!fetches.asked(&addresses(&cluster)[1]));
    }
}

/// C33, C48: with the layer around each node's service, and a router over these below the recovery
/// layer.
#[tokio::test]
async fn each_node_may_be_a_service_of_its_own() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls());
    let node = |address: String| {
        let service = ServiceBuilder::new()
            .layer(ConfigPollLayer::new(StaleKvConfig::new(poller.clone())))
            .layer(kv::StageLayer::new())
            .service(NodeClient::new(address.clone(), client.options.clone()));
        (address, service)
    };
    let nodes: HashMap<_, _> = seeds(&cluster).into_iter().map(node).collect();
    let store = client.store.clone();
    let router = service_fn(move |mut call: Call<KvRequest>| {
        let config = store.load().expect("a configuration");
        let route = config.route(&call.request.key).expect("vbuckets");
        call.request.vbucket = Some(route.vbucket);
        let owner = &config.nodes()[route.node.expect("an owner")];
        let address = owner.address(Service::Kv, false, &Network::Default);
        let address = address.expect("a port").to_string();
        nodes[&address].clone().oneshot(call)
    });
    let stack = ServiceBuilder::new()
        .layer(KvClientLayer::without_config_poll().timeout(PATIENCE))
        .service(router);
    let get = || {
        let mut call = Call::new(KvRequest::get(key.clone()));
        let watch = RetryInfo::track(&mut call);
        let answer = stack.clone().oneshot(call);
        async move {
            let answer = within(answer).await.expect("an answer");
            assert_eq!(answer.value(), b"v");
            (answer.node().to_owned(), watch.info())
        }
    };
    let address = |node: usize| cluster.node(node).addr().to_string();
    let (node, info) = get().await;
    assert_eq!((&*node, info.attempts()), (&*address(0), 1));
    // The response carries the configuration.
    cluster.move_vbuckets(0, 1);
    let (node, info) = get().await;
    assert_eq!((&*node, info.attempts()), (&*address(1), 2));
    assert_eq!(info.reasons().collect::<Vec<_>>(), [KV_NOT_MY_VBUCKET]);
    assert_eq!((fetches.count(), rev(&client)), (0, Some((1, 2))));
    // Another node has it.
    cluster.fail_over(1).await;
    let (node, info) = get().await;
    let owner = cluster.owner_of(key.as_bytes()).expect("an owner");
    assert_eq!(node, address(owner));
    assert!(info.attempts() >= 2);
    assert_eq!(rev(&client), Some((1, 3)));
    assert!(fetches.count() >= 1);
}
