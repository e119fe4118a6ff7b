//! One outage: the load, the failing node, the new configuration, and the results of the calls.

use std::time::Duration;

use reattempt::strategy::BestEffort;
use reattempt::{Call, ConfigPollLayer, DeadlineLayer, PushbackLayer, RetryLayer};
use reattempt_clients::kv::client::{ClientOptions, KvRequest, KvResponse, RoutedClient};
use reattempt_clients::kv::{self, StageLayer};
use reattempt_couchbase::kv::attach_idempotency;
use reattempt_couchbase::{ConfigStore, KvClassifier, KvPushback};
use reattempt_testbed::kv::Cluster;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::way::{INTERVAL, Way};

/// The failing node.
const DIES: usize = 0;
const LIMIT: Duration = Duration::from_secs(30);
/// The time before the node dies, and after the expected recovery.
const BEFORE: Duration = Duration::from_millis(200);
const EACH: Duration = Duration::from_millis(10);

/// The parameters of one outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) way: Way,
    /// From the failure to the new configuration.
    pub(crate) lasts: Duration,
}

/// The results of the calls; all times start when the new configuration is available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) first_read: Duration,
    pub(crate) first_write: Duration,
    /// The last success among calls that had started before.
    pub(crate) all_that_waited: Duration,
    /// How often nodes were asked for a configuration, from the failure on, and from the new
    /// configuration to the first success.
    pub(crate) asked_in_outage: usize,
    pub(crate) asked_after: usize,
    pub(crate) calls: usize,
    /// Calls that ended without success: writes that were in flight when the node died.
    pub(crate) lost: usize,
}

/// One call of the load.
#[derive(Clone, Copy, Debug)]
struct Ended {
    write: bool,
    began: Instant,
    /// The instant of a success; `None` otherwise.
    at: Option<Instant>,
    asked: usize,
}

impl Outage {
    pub(crate) const LOAD: &str = "a read and a write of the dead node's documents every 10 ms, independent of earlier results,";

    pub(crate) async fn run(self) -> Result<Story, BoxError> {
        let cluster = Cluster::start(3).await?;
        let seeds = cluster.addresses();
        let store = ConfigStore::new();
        let options = ClientOptions::couchbase("Administrator", "password", "default")
            .on_config(kv::offer_to(store.clone()));
        let map = kv::map_of(store.clone());
        let client = RoutedClient::new(seeds.iter().map(ToString::to_string), options, map);
        let keys = keys(&cluster)?;
        // Connects to all nodes before the failure.
        for node in 0..cluster.nodes().len() {
            let key = cluster.key_of(node, "warm").ok_or("no key")?;
            client
                .clone()
                .oneshot(KvRequest::set(key, "v", 0, 0))
                .await?;
        }
        for key in &keys {
            client.clone().oneshot(write(key)).await?;
        }
        let (_poller, refreshes, asked) = self.way.start(&store, &client);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(LIMIT))
            .map_err(BoxError::from)
            .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
            .layer(PushbackLayer::new(KvPushback::new()))
            .option_layer(refreshes.map(ConfigPollLayer::new))
            .layer(StageLayer::new())
            .service(client);

        let start = Instant::now();
        let (dies, comes) = (start + BEFORE, start + BEFORE + self.lasts);
        let ends = comes + INTERVAL + BEFORE;
        let load = async {
            let (mut ticks, mut calls) = (interval(EACH), JoinSet::new());
            for key in keys.iter().cycle() {
                if ticks.tick().await >= ends {
                    break;
                }
                for request in [KvRequest::get(key.clone()), write(key)] {
                    let asked = asked.clone();
                    let ended = one(service.clone(), request);
                    calls.spawn(async move {
                        let (write, began, at) = ended.await;
                        let asked = asked.count();
                        Ended {
                            write,
                            began,
                            at,
                            asked,
                        }
                    });
                }
            }
            calls.join_all().await
        };
        let trouble = async {
            sleep_until(dies).await;
            cluster.kill(DIES).await;
            let at_death = asked.count();
            sleep_until(comes).await;
            cluster.fail_over(DIES).await;
            (Instant::now(), at_death, asked.count())
        };
        let (calls, (comes, at_death, at_coming)) = tokio::join!(load, trouble);
        story(&calls, comes, at_death, at_coming)
    }
}

/// Some documents of the failing node.
fn keys(cluster: &Cluster) -> Result<Vec<String>, BoxError> {
    let key = |n: usize| cluster.key_of(DIES, &format!("airline_{n}_"));
    (0..32)
        .map(|n| key(n).ok_or_else(|| "no key".into()))
        .collect()
}

fn write(key: &str) -> KvRequest {
    KvRequest::set(key.to_owned(), "written", 0, 0)
}

async fn one<S>(service: S, request: KvRequest) -> (bool, Instant, Option<Instant>)
where
    S: Service<Call<KvRequest>, Response = KvResponse, Error = BoxError>,
{
    let (write, began) = (!request.value().is_empty(), Instant::now());
    let mut call = Call::new(request);
    attach_idempotency(&mut call);
    let outcome = service.oneshot(call).await;
    let worked = outcome.is_ok_and(|answer| answer.is_success());
    (write, began, worked.then(Instant::now))
}

fn story(
    calls: &[Ended],
    comes: Instant,
    at_death: usize,
    at_coming: usize,
) -> Result<Story, BoxError> {
    // The dead node's last responses arrived earlier.
    let since = |at: Instant| at.checked_duration_since(comes);
    let successes = |write: Option<bool>| {
        let of_kind = move |call: &&Ended| write.is_none_or(|write| write == call.write);
        calls
            .iter()
            .filter(of_kind)
            .filter_map(move |call| Some((since(call.at?)?, call)))
    };
    let first = |write| successes(write).min_by_key(|(time, _)| *time);
    let never = "no call succeeded after the failover";
    let (_, first_of_all) = first(None).ok_or(never)?;
    let waited = successes(None).filter(|(_, call)| call.began < comes);
    Ok(Story {
        first_read: first(Some(false)).ok_or(never)?.0,
        first_write: first(Some(true)).ok_or(never)?.0,
        all_that_waited: waited.map(|(time, _)| time).max().ok_or(never)?,
        asked_in_outage: at_coming - at_death,
        asked_after: first_of_all.asked.saturating_sub(at_coming),
        calls: calls.len(),
        lost: calls.iter().filter(|call| call.at.is_none()).count(),
    })
}
