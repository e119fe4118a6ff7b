use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::backoff::Randomness;
use reattempt::test_util::ms;
use tokio::sync::Notify;
use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::cluster_config::{ClusterConfig, Revision};
use crate::testing::{bucket, config, node};

/// The polled nodes, each with the milliseconds since the start and the revision that was sent.
type Asked = Arc<Mutex<Vec<(u64, String, Option<Revision>)>>>;

/// How a node answers a poll.
#[derive(Clone, Debug)]
enum Does {
    Fails,
    Hangs,
    Panics,
    HasNoneNewer,
    /// Returns no newer configuration once it is notified.
    Waits(Arc<Notify>),
    Answers(Box<ClusterConfig>),
}

/// A store with revision 1:1 of this many nodes.
fn store_of(nodes: usize) -> ConfigStore {
    let store = ConfigStore::new();
    store.compare_and_swap(config(1, 1, nodes, 0));
    store
}

/// What the second node does, the first to be polled; the others have nothing newer.
fn second(does: Does) -> impl Fn(&Address) -> Does + Send + Sync {
    move |node| match node.host() {
        "n2" => does.clone(),
        _ => Does::HasNoneNewer,
    }
}

struct Cluster {
    asked: Asked,
    poller: ConfigPoller,
}

impl Cluster {
    /// Three nodes; the store has revision 1:1. The first node to poll is `n2`.
    fn new(does: impl Fn(&Address) -> Does + Send + Sync + 'static) -> Self {
        Self::with(does, |options| options)
    }

    fn with(
        does: impl Fn(&Address) -> Does + Send + Sync + 'static,
        options: impl FnOnce(ConfigPollerOptions) -> ConfigPollerOptions,
    ) -> Self {
        Self::over(store_of(3), does, options)
    }

    fn over(
        store: ConfigStore,
        does: impl Fn(&Address) -> Does + Send + Sync + 'static,
        options: impl FnOnce(ConfigPollerOptions) -> ConfigPollerOptions,
    ) -> Self {
        let (asked, start) = (Asked::default(), Instant::now());
        let log = Arc::clone(&asked);
        let fetch = move |node: Address, known| {
            let at = u64::try_from(start.elapsed().as_millis()).unwrap();
            let host = node.host().to_owned();
            log.lock().unwrap().push((at, host, known));
            let does = does(&node);
            async move {
                match does {
                    Does::Fails => Err("down".into()),
                    Does::Hangs => std::future::pending().await,
                    Does::Panics => panic!("the fetch of the client"),
                    Does::HasNoneNewer => Ok(None),
                    Does::Waits(told) => {
                        told.notified().await;
                        Ok(None)
                    }
                    Does::Answers(config) => Ok(Some(*config)),
                }
            }
        };
        // 0.34 of three nodes is the second.
        let fixed = ConfigPollerOptions::new().randomness(Randomness::Fixed(0.34));
        let poller = ConfigPoller::spawn(store, fetch, options(fixed));
        Self { asked, poller }
    }

    fn asked(&self) -> Vec<(u64, String)> {
        let asked = self.asked.lock().unwrap();
        let asked = asked.iter().map(|(at, node, _)| (*at, node.clone()));
        asked.collect()
    }

    fn asked_nodes(&self) -> Vec<String> {
        self.asked().into_iter().map(|(_, node)| node).collect()
    }

    /// Polls on error until that is done.
    async fn refresh(&self, failed: Option<usize>) {
        let failed = failed.map(node);
        self.poller.refresh(failed.as_ref()).unwrap().done().await;
    }
}

fn at(times: &[(u64, usize)]) -> Vec<(u64, String)> {
    times.iter().map(|(at, n)| (*at, format!("n{n}"))).collect()
}

/// C47 C48 C49
#[tokio::test(start_paused = true)]
async fn a_poll_asks_the_next_node_every_interval_from_a_random_one() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    sleep(ms(10_001)).await;
    assert_eq!(
        cluster.asked(),
        at(&[(2500, 2), (5000, 3), (7500, 1), (10_000, 2)])
    );
    let known = cluster.asked.lock().unwrap()[0].2;
    assert_eq!(known, Some(Revision::new(1, 1)));
}

/// C48 C49
#[tokio::test(start_paused = true)]
async fn a_poll_ends_at_the_first_configuration_newer_or_not() {
    let cluster = Cluster::new(|node| match node.host() {
        "n2" => Does::Fails,
        "n3" => Does::Answers(Box::new(config(1, 1, 3, 0))),
        _ => Does::Answers(Box::new(config(1, 2, 3, 1))),
    });
    sleep(ms(2501)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (2500, 3)]));
    assert_eq!(cluster.poller.store().revision(), Some(Revision::new(1, 1)));
    sleep(ms(2500)).await;
    assert_eq!(cluster.poller.store().revision(), Some(Revision::new(1, 2)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_left_for_the_next_one() {
    let options = |options: ConfigPollerOptions| options.fetch_timeout(ms(700));
    let cluster = Cluster::with(second(Does::Hangs), options);
    sleep(ms(3201)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (3200, 3)]));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_fetch_panics_is_left_for_the_next_one() {
    let cluster = Cluster::new(second(Does::Panics));
    sleep(ms(5001)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (2500, 3), (5000, 1)]));
}

/// C48 C50
#[tokio::test(start_paused = true)]
async fn a_configuration_of_another_bucket_ends_no_round() {
    let cluster = Cluster::new(|node| {
        let mut json = bucket(1, 2, 3, 0);
        if node.host() == "n2" {
            json = json.replace("\"b\"", "\"other\"");
        }
        Does::Answers(Box::new(ClusterConfig::parse(json.as_bytes(), "").unwrap()))
    });
    sleep(ms(2501)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (2500, 3)]));
    assert_eq!(cluster.poller.store().revision(), Some(Revision::new(1, 2)));
}

#[test]
fn a_refresh_ends_with_the_runtime_of_its_poller() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    };
    let (of_poller, another) = (runtime(), runtime());
    let guard = of_poller.enter();
    let cluster = Cluster::new(|_| Does::Hangs);
    let mut refreshing = cluster.poller.refresh(None).unwrap();
    drop(guard);
    drop(of_poller);
    another.block_on(refreshing.done());
}

/// C47: after a slow poll the interval starts again; missed polls are not made up for.
#[tokio::test(start_paused = true)]
async fn polls_that_were_missed_are_not_made_up_for() {
    let options = |options: ConfigPollerOptions| options.fetch_timeout(ms(6000));
    let cluster = Cluster::with(second(Does::Hangs), options);
    sleep(ms(11_001)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (8500, 3), (11_000, 1)]));
}

/// C47
#[tokio::test(start_paused = true)]
async fn no_poll_is_more_often_than_the_floor() {
    let cluster = Cluster::with(
        |_| Does::HasNoneNewer,
        |options| options.interval(ms(1)).floor(ms(100)),
    );
    sleep(ms(301)).await;
    assert_eq!(cluster.asked(), at(&[(100, 2), (200, 3), (300, 1)]));
    let zero = ConfigPollerOptions::new()
        .interval(Duration::ZERO)
        .floor(Duration::ZERO);
    assert_eq!(zero.effective_interval(), ms(1));
}

/// C47 C48
#[tokio::test(start_paused = true)]
async fn an_error_polls_another_node_at_once_at_most_once_per_floor() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    let refresh = || cluster.poller.refresh(Some(&node(2)));
    refresh().unwrap().done().await;
    assert_eq!(cluster.asked(), at(&[(0, 3)]), "the second is skipped");
    advance(ms(49)).await;
    assert!(refresh().is_none(), "within the floor");
    advance(ms(1)).await;
    refresh().unwrap().done().await;
    assert_eq!(cluster.asked(), at(&[(0, 3), (50, 1)]));
}

/// C47
#[tokio::test(start_paused = true)]
async fn errors_that_come_together_share_one_refresh() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    let mut refreshing: Vec<_> = (0..100)
        .map(|_| cluster.poller.refresh(None).unwrap())
        .collect();
    for refreshing in &mut refreshing {
        refreshing.done().await;
    }
    assert_eq!(cluster.asked(), at(&[(0, 2)]));
}

/// C48
#[tokio::test(start_paused = true)]
async fn a_refresh_does_not_wait_for_a_node_that_fails_meanwhile() {
    let cluster = Cluster::new(second(Does::Hangs));
    let mut first = cluster.poller.refresh(None).unwrap();
    sleep(ms(10)).await;
    let mut second = cluster.poller.refresh(Some(&node(2))).unwrap();
    first.done().await;
    second.done().await;
    assert_eq!(cluster.asked(), at(&[(0, 2), (10, 3)]));
}

/// C48: a late notification that a node failed applies to that node only.
#[tokio::test(start_paused = true)]
async fn a_late_failure_notice_does_not_apply_to_the_next_node() {
    let (told, next) = <(Arc<Notify>, Arc<Notify>)>::default();
    let (second, third) = (Arc::clone(&told), Arc::clone(&next));
    let cluster = Cluster::new(move |node| match node.host() {
        "n2" => Does::Waits(Arc::clone(&second)),
        "n3" => Does::Waits(Arc::clone(&third)),
        _ => Does::HasNoneNewer,
    });
    let mut first = cluster.poller.refresh(None).unwrap();
    sleep(ms(10)).await;
    told.notify_one();
    let mut joined = cluster.poller.refresh(Some(&node(2))).unwrap();
    first.done().await;
    joined.done().await;
    sleep(ms(90)).await;
    let mut second = cluster.poller.refresh(None).unwrap();
    sleep(ms(10)).await;
    next.notify_one();
    second.done().await;
    assert_eq!(cluster.asked(), at(&[(0, 2), (100, 3)]));
}

/// C48
#[tokio::test(start_paused = true)]
async fn no_node_is_asked_if_the_only_one_failed() {
    let cluster = Cluster::over(store_of(1), |_| Does::HasNoneNewer, |options| options);
    cluster.refresh(Some(1)).await;
    assert!(cluster.asked().is_empty());
}

/// C51: without a node to ask the poller waits as long as otherwise.
#[tokio::test(start_paused = true)]
async fn a_changing_configuration_without_addresses_is_no_busy_loop() {
    let changing = |revision: u32, services: &str| {
        let text = format!(
            r#"{{"rev": {revision}, "name": "b", "nodeLocator": "vbucket",
                "nodesExt": [{{"hostname": "n1", "services": {{{services} "mgmt": 8091}}}}],
                "vBucketServerMap": {{"hashAlgorithm": "CRC", "serverList": ["n1:11210"],
                    "vBucketMap": [[0]], "vBucketMapForward": [[0]]}}}}"#
        );
        ClusterConfig::parse(text.as_bytes(), "n1").unwrap()
    };
    let store = ConfigStore::new();
    store.compare_and_swap(changing(1, r#""kv": 11210, "kvSSL": 11207,"#));
    let none = |_: Address, _| async { Ok::<_, FetchError>(None) };
    let options = ConfigPollerOptions::new().tls(true);
    let poller = ConfigPoller::spawn(store.clone(), none, options.while_changing(WHILE_CHANGING));
    sleep(WHILE_CHANGING * 2).await;
    let rounds = || *poller.0.control.finished.borrow();
    let before = rounds();
    assert!(before > 0, "it was asked");
    store.compare_and_swap(changing(2, ""));
    // Not by a sleep, which a busy task would hold up for ever.
    for _ in 0..10 {
        advance(WHILE_CHANGING).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert!(
        (1..=11).contains(&(rounds() - before)),
        "{}",
        rounds() - before
    );
}

/// C48: each error excludes its own node only.
#[tokio::test(start_paused = true)]
async fn errors_of_all_nodes_do_not_keep_a_newer_configuration_out() {
    for (every, answers_in) in [(0, 3), (1, 3), (7, 20), (20, 60)] {
        let store = store_of(3);
        let newer = move |_: Address, _| async move {
            sleep(ms(answers_in)).await;
            Ok::<_, FetchError>(Some(config(1, 2, 3, 1)))
        };
        let poller = ConfigPoller::spawn(store.clone(), newer, ConfigPollerOptions::new());
        let newest = store.revision();
        for error in 0..200 {
            drop(poller.refresh(Some(&node(error % 3 + 1))));
            sleep(ms(every)).await;
        }
        sleep(ms(500)).await;
        assert_ne!(store.revision(), newest, "an error every {every} ms");
    }
}

/// C48: an error excludes its node from the round that it causes, and not from a poll by time.
#[tokio::test(start_paused = true)]
async fn errors_of_the_only_node_end_no_poll_by_time() {
    let seeds_only = ConfigPollerOptions::new().seeds([node(1)]);
    for (known, options) in [(true, ConfigPollerOptions::new()), (false, seeds_only)] {
        let store = if known {
            store_of(1)
        } else {
            ConfigStore::new()
        };
        let newer = |_: Address, _| async {
            sleep(ms(20)).await;
            Ok::<_, FetchError>(Some(config(1, 2, 1, 0)))
        };
        let poller = ConfigPoller::spawn(store.clone(), newer, options);
        let before = store.revision();
        for _ in 0..1500 {
            drop(poller.refresh(Some(&node(1))));
            sleep(ms(7)).await;
        }
        assert_ne!(store.revision(), before, "known: {known}");
    }
}

/// C47: a timer that fires late delays the following ones; no poll finds the previous one within
/// the floor.
#[tokio::test(start_paused = true)]
async fn at_an_interval_of_the_floor_no_poll_is_left_out() {
    let cluster = Cluster::with(
        |_| Does::HasNoneNewer,
        |options| options.interval(ms(100)).floor(ms(100)),
    );
    sleep(ms(1)).await;
    advance(ms(102)).await;
    sleep(ms(301)).await;
    assert_eq!(
        cluster.asked(),
        at(&[(103, 2), (203, 3), (303, 1), (403, 2)])
    );
}

/// C48: a node is skipped for one round only.
#[tokio::test(start_paused = true)]
async fn a_node_that_failed_is_asked_again_by_the_next_poll() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    cluster.refresh(Some(1)).await;
    sleep(ms(5001)).await;
    assert_eq!(cluster.asked(), at(&[(0, 2), (2500, 3), (5000, 1)]));
}

/// C47
#[tokio::test(start_paused = true)]
async fn a_poll_right_after_a_refresh_is_left_out() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    sleep(ms(2480)).await;
    cluster.refresh(None).await;
    sleep(ms(2521)).await;
    assert_eq!(cluster.asked(), at(&[(2480, 2), (5000, 3)]));
}

#[tokio::test(start_paused = true)]
async fn an_empty_store_is_filled_from_the_seeds_at_once() {
    let seeds = [Address::new("seed1", 11210), Address::new("seed2", 11210)];
    let cluster = Cluster::over(
        ConfigStore::new(),
        |node| match node.host() {
            "seed1" => Does::Fails,
            _ => Does::Answers(Box::new(config(1, 1, 3, 0))),
        },
        |options| options.seeds(seeds),
    );
    let mut watch = cluster.poller.store().watch();
    watch.wait_for(Option::is_some).await.unwrap();
    let asked = cluster.asked_nodes();
    assert_eq!(asked, ["seed1", "seed2"]);
    assert!(cluster.asked().iter().all(|(at, _)| *at == 0));
    assert_eq!(cluster.asked.lock().unwrap()[0].2, None);
}

/// C47: a configuration from connection setup does not count as a poll.
#[tokio::test(start_paused = true)]
async fn the_first_configuration_may_be_left_to_the_client() {
    let cluster = Cluster::over(
        ConfigStore::new(),
        |_| Does::HasNoneNewer,
        |options| options.first_from_client(),
    );
    sleep(ms(10)).await;
    assert_eq!(cluster.asked(), at(&[]));
    cluster.poller.store().compare_and_swap(config(1, 1, 3, 0));
    cluster.refresh(None).await;
    assert_eq!(cluster.asked(), at(&[(10, 2)]));
}

/// C48: all nodes of the configuration are gone; the seeds know the cluster's current nodes.
#[tokio::test(start_paused = true)]
async fn where_no_known_node_answers_the_seeds_are_asked() {
    let does = |node: &Address| match node.host() {
        "n2" => Does::Hangs,
        "seed" => Does::Answers(Box::new(config(1, 2, 3, 1))),
        _ => Does::Fails,
    };
    // One of them is a known node, and is not polled twice.
    let seeds = [Address::new("seed", 11210), node(3)];
    let with_seeds =
        |options: ConfigPollerOptions| options.seeds(seeds.clone()).fetch_timeout(ms(700));
    let cluster = Cluster::with(does, with_seeds);
    sleep(ms(3201)).await;
    let asked = cluster.asked_nodes();
    assert_eq!(asked, ["n2", "n3", "n1", "seed"]);
    assert_eq!(cluster.poller.store().revision(), Some(Revision::new(1, 2)));

    // On error too, and never the failed one.
    let cluster = Cluster::over(store_of(1), does, |options| {
        options.seeds([node(1), seeds[0].clone()])
    });
    cluster.refresh(Some(1)).await;
    assert_eq!(cluster.asked(), [(0, "seed".to_owned())]);
}

/// A configuration may name thousands of nodes that do not answer.
#[tokio::test(start_paused = true)]
async fn the_seeds_do_not_wait_for_the_end_of_a_long_list() {
    let does = |node: &Address| match node.host() {
        "seed2" => Does::HasNoneNewer,
        _ => Does::Hangs,
    };
    let seeds = ["seed1", "seed2"].map(|host| Address::new(host, 11210));
    let cluster = Cluster::over(store_of(100), does, |options| options.seeds(seeds));
    cluster.refresh(None).await;
    let asked = cluster.asked_nodes();
    let first: Vec<_> = (35..=43).map(|number| format!("n{number}")).collect();
    assert_eq!(asked[..9], first[..], "the known nodes are first");
    assert_eq!(asked[9..], ["seed1", "n44", "seed2"]);
}

#[tokio::test(start_paused = true)]
async fn polling_ends_with_the_last_owner() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    let Cluster { asked, poller } = cluster;
    let mut left_over = poller.refresh(None).unwrap();
    let clone = poller.clone();
    drop(poller);
    sleep(ms(2501)).await;
    assert_eq!(asked.lock().unwrap().len(), 2, "a clone keeps it running");
    drop(clone);
    sleep(ms(10_000)).await;
    assert_eq!(asked.lock().unwrap().len(), 2);
    left_over.done().await;
    assert_eq!(Arc::strong_count(&asked), 1, "and the task is gone");
}

/// Without the check, the overflow ended the task and no node was ever polled again.
#[tokio::test(start_paused = true)]
async fn an_interval_of_for_ever_leaves_refreshes_on_error() {
    let cluster = Cluster::with(
        |_| Does::HasNoneNewer,
        |options| options.interval(Duration::MAX),
    );
    sleep(ms(100)).await;
    let mut refreshing = cluster.poller.refresh(None).expect("no node polled yet");
    let done = tokio::time::timeout(ms(1000), refreshing.done()).await;
    assert!(done.is_ok(), "the poller is gone");
    assert_eq!(cluster.asked(), [(100, "n2".to_owned())]);
}

/// A configuration during a rebalance that will move all vbuckets from the first node to the
/// second.
fn changing(epoch: i64, rev: i64) -> ClusterConfig {
    let forward = r#""vBucketMapForward": [[1, -1], [1, -1], [1, -1], [1, -1]], "vBucketMap""#;
    let json = bucket(epoch, rev, 3, 0).replace("\"vBucketMap\"", forward);
    ClusterConfig::parse(json.as_bytes(), "").unwrap()
}

/// C51
#[tokio::test(start_paused = true)]
async fn on_request_a_rebalance_is_polled_every_second() {
    let cluster = Cluster::with(
        |_| Does::HasNoneNewer,
        |options| options.while_changing(WHILE_CHANGING),
    );
    let store = cluster.poller.store().clone();
    sleep(ms(2600)).await;
    store.compare_and_swap(changing(1, 2));
    sleep(ms(2000)).await;
    // A second after the last poll: at 3500, then 4500.
    assert_eq!(cluster.asked(), at(&[(2500, 2), (3500, 3), (4500, 1)]));
    store.compare_and_swap(config(1, 3, 3, 1));
    sleep(ms(2500)).await;
    // The rebalance is over: the interval starts at the last poll.
    assert_eq!(cluster.asked()[3..], at(&[(7000, 2)]));
}

/// C51: RFC 0024 defines one interval.
#[tokio::test(start_paused = true)]
async fn without_being_asked_a_rebalance_is_polled_as_ever() {
    let cluster = Cluster::new(|_| Does::HasNoneNewer);
    cluster.poller.store().compare_and_swap(changing(1, 2));
    sleep(ms(5100)).await;
    assert_eq!(cluster.asked(), at(&[(2500, 2), (5000, 3)]));
}

/// C51 C47: never below the floor, never above the interval.
#[tokio::test(start_paused = true)]
async fn the_interval_of_a_rebalance_keeps_to_the_others() {
    for (asked, polls) in [(ms(0), 3), (ms(60_000), 1)] {
        let cluster = Cluster::with(
            |_| Does::HasNoneNewer,
            |options| options.floor(ms(800)).while_changing(asked),
        );
        cluster.poller.store().compare_and_swap(changing(1, 2));
        sleep(ms(2550)).await;
        assert_eq!(cluster.asked().len(), polls, "{asked:?}");
    }
}

/// C51: a fast-forward map is a forecast; keys are routed by the current map.
#[test]
fn a_fast_forward_map_routes_nothing() {
    let config = changing(1, 1);
    let map = config.vbuckets().unwrap();
    assert_eq!((map.node(0, 0), map.forward_node(0, 0)), (Some(0), Some(1)));
    assert_eq!(config.route(b"k").unwrap().node, Some(0));
}

/// C48: a round over dead nodes ends once another source has a configuration without them.
#[tokio::test(start_paused = true)]
async fn a_newer_configuration_ends_a_round_over_dead_nodes() {
    let of_seed = "seed:11210".parse().unwrap();
    let does = |node: &Address| match node.host() {
        "seed" => Does::HasNoneNewer,
        _ => Does::Hangs,
    };
    let cluster = Cluster::over(store_of(40), does, |options| options.seeds([of_seed]));
    // The first poll is at 2.5 s.
    sleep(ms(3000)).await;
    cluster.poller.store().compare_and_swap(config(1, 2, 1, 0));
    sleep(ms(1)).await;
    drop(cluster.poller.refresh(Some(&"n1:11210".parse().unwrap())));
    sleep(ms(100)).await;
    let asked = cluster.asked.lock().unwrap();
    let nodes: Vec<_> = asked.iter().map(|(_, node, _)| &**node).collect();
    assert_eq!(nodes[1..], ["n1", "seed"], "{nodes:?}");
}

/// C48: at most one request per floor, however fast configurations without the asked node come.
#[tokio::test(start_paused = true)]
async fn a_flood_of_new_nodes_is_asked_at_the_pace_of_the_floor() {
    let cluster = Cluster::new(|_| Does::Hangs);
    let _refresh = cluster.poller.refresh(None).unwrap();
    for rev in 2..500 {
        let json = bucket(1, rev, 1, 0).replace("n1", &format!("v{rev}"));
        let one = ClusterConfig::parse(json.as_bytes(), "n1").unwrap();
        cluster.poller.store().compare_and_swap(one);
        sleep(ms(1)).await;
    }
    let asked = cluster.asked().len();
    assert!(
        (5..=12).contains(&asked),
        "{asked} requests in half a second"
    );
}

/// A push of a node that lags is no reason not to wait for one that is asked.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_node_that_stays_is_waited_for() {
    let notify = Arc::new(Notify::new());
    let waits = Arc::clone(&notify);
    let does = move |_: &Address| Does::Waits(Arc::clone(&waits));
    let cluster = Cluster::over(store_of(3), does, |options| options);
    sleep(ms(100)).await;
    let mut refresh = cluster.poller.refresh(None).unwrap();
    sleep(ms(5)).await;
    cluster.poller.store().compare_and_swap(config(1, 2, 3, 0));
    let early = tokio::time::timeout(ms(50), refresh.done()).await;
    assert!(early.is_err(), "the node has not answered");
    notify.notify_one();
    refresh.done().await;
    assert_eq!(cluster.asked.lock().unwrap().len(), 1);
}
