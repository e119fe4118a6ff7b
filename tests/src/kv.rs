//! The documented stack around the KV client, against a cluster on loopback or a memcached.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reattempt::strategy::BestEffort;
use reattempt::{
    Call, ClientError, Elapsed, RetryInfo, RetryInfoHandle, RetryReason, RetryStrategy,
};
use reattempt_clients::kv::client::{ClientOptions, KvRequest, KvResponse, RoutedClient};
use reattempt_clients::kv::{self, CollectionClient, CollectionIds};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::{Address, ConfigPoller, ConfigStore, KvClientLayer};
use reattempt_testbed::kv::Cluster;
use reattempt_testbed::kv::node::SeenRequest;
use tower::{ServiceBuilder, ServiceExt};

use crate::{PATIENCE, within};

/// Waits until the condition holds.
pub async fn until(test: impl Fn() -> bool) {
    within(async {
        while !test() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// One client of a cluster with the stack around it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The configuration in force, used for routing.
    pub store: ConfigStore,
    /// The connection options.
    pub options: ClientOptions,
    /// The client inside the stack.
    pub routed: RoutedClient,
    /// The known collection ids.
    pub collections: CollectionIds,
    strategy: Arc<dyn RetryStrategy>,
    limit: Duration,
    poller: Option<ConfigPoller>,
}

/// The result of a call.
#[derive(Debug)]
pub struct Ended {
    /// The response, or the error.
    pub outcome: Result<KvResponse, ClientError<kv::ClientError>>,
    /// The record of the call.
    pub info: RetryInfo,
}

impl Ended {
    /// The status of the response; panics with the error if there is none.
    pub fn status(&self) -> Status {
        match &self.outcome {
            Ok(answer) => answer.status,
            Err(error) => panic!("{error}"),
        }
    }

    /// The value of the response as text.
    pub fn value(&self) -> String {
        match &self.outcome {
            Ok(answer) => String::from_utf8_lossy(answer.value()).into_owned(),
            Err(error) => panic!("{error}"),
        }
    }

    /// The deadline's own error.
    pub fn elapsed(&self) -> &Elapsed {
        let error = self.outcome.as_ref().expect_err("a timeout");
        error.elapsed().expect("a timeout")
    }

    /// The client's own error.
    pub fn error(&self) -> &kv::ClientError {
        let error = self.outcome.as_ref().expect_err("an error");
        error.transport().expect("the client's error")
    }

    /// The reasons of failed attempts, in order of first occurrence.
    pub fn reasons(&self) -> Vec<RetryReason> {
        self.info.reasons().collect()
    }
}

impl Client {
    /// Best effort, a long deadline, no config poll.
    pub fn of(cluster: &Cluster) -> Self {
        Self::with(cluster, |options| options)
    }

    /// The same with other connection options.
    pub fn with(cluster: &Cluster, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Self {
        let options = ClientOptions::couchbase("Administrator", "password", "default");
        Self::around(seeds(cluster), change(options))
    }

    /// The same for any servers.
    pub fn around(seeds: Vec<String>, options: ClientOptions) -> Self {
        let store = ConfigStore::new();
        let options = options.on_config(kv::offer_to(store.clone()));
        let map = kv::map_of(store.clone());
        let routed = RoutedClient::new(seeds, options.clone(), map);
        Self {
            store,
            options,
            routed,
            collections: CollectionIds::new(),
            strategy: Arc::new(BestEffort::new()),
            limit: PATIENCE,
            poller: None,
        }
    }

    /// Uses another strategy.
    #[must_use]
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Ends calls after this time.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Detects an outdated configuration, and polls for a newer one.
    #[must_use]
    pub fn config_poll(mut self, poller: &ConfigPoller) -> Self {
        self.poller = Some(poller.clone());
        self
    }

    /// One call through the whole stack.
    pub async fn call(&self, request: KvRequest) -> Ended {
        self.begin(request).1.await
    }

    /// A call that can be observed while it is in progress.
    pub fn begin(
        &self,
        request: KvRequest,
    ) -> (RetryInfoHandle, impl Future<Output = Ended> + use<>) {
        let mut call = Call::new(request);
        let watch = RetryInfo::track(&mut call);
        let poller = self.poller.clone();
        let layer = poller.map_or_else(KvClientLayer::without_config_poll, KvClientLayer::new);
        let layer = layer.timeout(self.limit);
        let service = ServiceBuilder::new()
            .layer(layer.strategy(Arc::clone(&self.strategy)))
            .layer(kv::StageLayer::new())
            .service(CollectionClient::new(
                self.routed.clone(),
                self.collections.clone(),
            ));
        let of_call = watch.clone();
        let ended = async move {
            let outcome = within(service.oneshot(call)).await;
            Ended {
                outcome,
                info: of_call.info(),
            }
        };
        (watch, ended)
    }

    /// Waits until the client has noticed the loss of its connection to this node.
    pub async fn has_lost(&self, cluster: &Cluster, node: usize) {
        let node = self.routed.node(&cluster.node(node).addr().to_string());
        until(|| !node.is_connected()).await;
    }
}

/// The addresses of the nodes, as seeds.
pub fn seeds(cluster: &Cluster) -> Vec<String> {
    cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The addresses of the nodes.
pub fn addresses(cluster: &Cluster) -> Vec<Address> {
    let address = |seed: &String| seed.parse().expect("an address");
    seeds(cluster).iter().map(address).collect()
}

/// The requests for documents that a node saw.
pub fn data(cluster: &Cluster, node: usize) -> Vec<SeenRequest> {
    let mut seen = cluster.node(node).seen_data();
    seen.retain(|request| request.opcode != Opcode::GET_CLUSTER_CONFIG);
    seen
}
