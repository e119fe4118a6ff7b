//! KV: Couchbase's key-value protocol against a cluster of three nodes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use indicatif::ProgressBar;
use reattempt::{Call, RouteLayer};
use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::kv::{
    ClientError, ClientOptions, KvRequest, KvResponse, RoutedClient, StageLayer, fetch_over,
    map_of, offer_to,
};
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::{ConfigPoller, ConfigPollerOptions, ConfigStore, KvClientLayer};
use reattempt_testbed::kv::{Cluster, SeenRequest, Step};
use tower::{ServiceBuilder, ServiceExt};

use super::DemoError;
use super::load::{CallRecord, Plan, Scene, Seen, bare, drive, of_preset, through};
use super::policies::{Policies, bucket};
use super::trouble::{Move, Script, Trouble, is_search, node_move, phases};
use crate::call::attempts::{JournalLayer, JournalObserver};

/// Runs the load once, against a new cluster.
pub(crate) async fn run(
    plan: &Plan,
    with_stack: bool,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let script = Script::new(plan.seed, plan.calls, true);
    let cluster = Cluster::builder()
        .handler(move |seen| step(&script, seen))
        .start_cluster(3)
        .await?;
    for call in 0..plan.calls {
        cluster.store().put(key(call), r#"{"price":1}"#);
    }
    let mut scene = KvScene {
        moved: node_move(&phases(plan.calls, true)),
        cluster,
    };
    let store = ConfigStore::new();
    let options = ClientOptions::couchbase("Administrator", "password", "default")
        .mechanism(Mechanism::Plain)
        .non_blocking_throttling();
    let seeds: Vec<String> = scene
        .cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let client = RoutedClient::new(
        seeds.iter().map(String::as_str),
        options.on_config(offer_to(store.clone())),
        map_of(store.clone()),
    );
    let limit = plan.limit;
    if !with_stack {
        let target = move |number| {
            let answer = client.clone().oneshot(KvRequest::get(key(number)));
            bare(limit, async { seen(answer.await.as_ref()) })
        };
        return drive(plan, target, &mut scene, progress).await;
    }
    let poller = ConfigPoller::spawn(
        store,
        fetch_over(client.clone()),
        ConfigPollerOptions::new()
            .seeds(scene.cluster.addresses().into_iter().map(Into::into))
            .fetch_timeout(limit),
    );
    let policies = Policies::new(plan);
    let layer = KvClientLayer::new(poller)
        .with_current_server_codes()
        .timeout(limit)
        .throttle(Arc::new(bucket(plan)?))
        .strategy(policies.strategy())
        .observer(Arc::new(JournalObserver));
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(move |call: &Call<KvRequest>| {
            Some(policies.of(is_search(number(&call.request.key)?)))
        }))
        .layer(layer)
        .layer(JournalLayer)
        .layer(StageLayer::new())
        .service(client);
    let target = move |number| {
        let call = Call::new(KvRequest::get(key(number)));
        through(stack.clone(), call, async |outcome| {
            of_preset(&outcome, seen)
        })
    };
    drive(plan, target, &mut scene, progress).await
}

fn key(call: usize) -> String {
    let kind = if is_search(call) { "search" } else { "item" };
    format!("{kind}-{call}")
}

fn number(key: &Bytes) -> Option<usize> {
    let (_, number) = std::str::from_utf8(key).ok()?.split_once('-')?;
    number.parse().ok()
}

/// The node's step for one request; `None` executes it.
fn step(script: &Script, seen: &SeenRequest) -> Option<Step> {
    match script.next(number(&seen.key)?) {
        Trouble::None => None,
        Trouble::Temporary(kind) => Some(Step::status(match kind % 6 {
            0 => Status::LOCKED,
            1 => Status::SYNC_WRITE_IN_PROGRESS,
            _ => Status::ETMPFAIL,
        })),
        Trouble::Slow(delay) => Some(Step::execute().after(delay)),
        Trouble::Hang => Some(Step::hang()),
        Trouble::Pushback(delay) => {
            Some(Step::status(Status::EWOULD_THROTTLE).throttle_duration(delay))
        }
        Trouble::Overloaded => Some(Step::status(Status::EBUSY)),
    }
}

struct KvScene {
    cluster: Cluster,
    moved: Move,
}

impl Scene for KvScene {
    /// First node 2 hands its vbuckets to node 0; later node 1 stops and is failed over.
    async fn before(&mut self, number: usize) -> io::Result<()> {
        if number == self.moved.goes {
            self.cluster.move_vbuckets(2, 0);
        }
        if number == self.moved.is_back {
            self.cluster.fail_over(1).await;
        }
        Ok(())
    }
}

/// The result for the caller.
fn seen(outcome: Result<&KvResponse, &ClientError>) -> Seen {
    match outcome {
        Ok(answer) if answer.is_success() => Ok(()),
        Ok(answer) => Err(match answer.status {
            Status::NOT_MY_VBUCKET => "not my vbucket".into(),
            Status::LOCKED => "locked".into(),
            Status::EWOULD_THROTTLE => "would throttle".into(),
            Status::EBUSY => "busy".into(),
            Status::ETMPFAIL => "temporary failure".into(),
            Status::SYNC_WRITE_IN_PROGRESS => "sync write in progress".into(),
            other => format!("status {:#04x}", other.0).into(),
        }),
        Err(ClientError::Connect { .. }) => Err("connection refused".into()),
        Err(_) => Err("connection lost".into()),
    }
}
