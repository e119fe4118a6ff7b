//! The documented stack around the testbed's KV client, against a cluster on loopback. The tests of
//! the three Couchbase specifications share it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reattempt::strategy::BestEffort;
use reattempt::{
    Call, CallContext, ConfigPollLayer, DeadlineLayer, Elapsed, PushbackLayer, RetryInfo,
    RetryLayer, RetryReason, RetryStrategy, Watch,
};
use reattempt_couchbase::kv::stamp_idempotency;
use reattempt_couchbase::{
    Address, ConfigPoller, ConfigStore, KvClassifier, KvPushback, StaleKvConfig,
};
use reattempt_testbed::kv::client::{
    ClientError, ClientOptions, KvRequest, KvResponse, RoutedClient,
};
use reattempt_testbed::kv::node::SeenRequest;
use reattempt_testbed::kv::{
    self, ClosingClient, Cluster, CollectionClient, CollectionIds, opcode,
};
use reattempt_testbed::report::ReportLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// Fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for it, but not for ever.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it hangs")
}

/// Waits until it is so.
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
    /// The configuration in force, which it routes by.
    pub store: ConfigStore,
    /// How it connects.
    pub options: ClientOptions,
    /// What the stack is around.
    pub routed: RoutedClient,
    /// The ids of collections that it knows.
    pub collections: CollectionIds,
    strategy: Arc<dyn RetryStrategy>,
    current_server_codes: bool,
    limit: Duration,
    poller: Option<ConfigPoller>,
}

/// What the caller got.
#[derive(Debug)]
pub struct Ended {
    /// The answer, or the error.
    pub outcome: Result<KvResponse, BoxError>,
    /// The story of the call.
    pub info: RetryInfo,
}

impl Ended {
    /// The status of the answer; panics with the error where there is none.
    pub fn status(&self) -> u16 {
        match &self.outcome {
            Ok(answer) => answer.status,
            Err(error) => panic!("{error}"),
        }
    }

    /// The value of the answer as text.
    pub fn value(&self) -> String {
        match &self.outcome {
            Ok(answer) => String::from_utf8_lossy(&answer.value).into_owned(),
            Err(error) => panic!("{error}"),
        }
    }

    /// The deadline's own error.
    pub fn elapsed(&self) -> &Elapsed {
        let error = self.outcome.as_ref().expect_err("a timeout");
        error.downcast_ref().expect("a timeout")
    }

    /// The client's own error.
    pub fn error(&self) -> &ClientError {
        let error = self.outcome.as_ref().expect_err("an error");
        error.downcast_ref().expect("the client's error")
    }

    /// Why attempts failed, first seen first.
    pub fn reasons(&self) -> Vec<RetryReason> {
        self.info.reasons().collect()
    }

    /// The delays chosen, in milliseconds.
    pub fn delays(&self) -> Vec<u128> {
        let delay = |record: &reattempt::AttemptRecord| Some(record.delay?.as_millis());
        self.info.records().filter_map(delay).collect()
    }
}

impl Client {
    /// Best effort, a generous deadline, no config poll.
    pub fn of(cluster: &Cluster) -> Self {
        Self::with(cluster, |options| options)
    }

    /// The same with other options of the connections.
    pub fn with(cluster: &Cluster, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Self {
        let options = ClientOptions::couchbase("Administrator", "password", "default");
        Self::around(seeds(cluster), change(options))
    }

    /// The same around servers that may be any.
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
            current_server_codes: false,
            limit: PATIENCE,
            poller: None,
        }
    }

    /// Retries by another strategy.
    #[must_use]
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Also goes by the codes of current servers.
    #[must_use]
    pub fn current_server_codes(mut self) -> Self {
        self.current_server_codes = true;
        self
    }

    /// Ends calls after this time.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Has a `ConfigPollLayer` in the stack.
    #[must_use]
    pub fn config_poll(mut self, poller: &ConfigPoller) -> Self {
        self.poller = Some(poller.clone());
        self
    }

    /// One call through the whole stack, stamped with what RFC 0049's list says of the operation.
    pub async fn call(&self, request: KvRequest) -> Ended {
        self.begin(request).1.await
    }

    /// A call to be looked at while it goes on.
    pub fn begin(&self, request: KvRequest) -> (Watch, impl Future<Output = Ended> + use<>) {
        let mut call = Call::new(request);
        stamp_idempotency(&mut call);
        let watch = CallContext::watch(&mut call);
        let mut classifier = KvClassifier::new();
        let mut poll = self.poller.clone().map(StaleKvConfig::new);
        if self.current_server_codes {
            classifier = classifier.with_current_server_codes();
            poll = poll.map(StaleKvConfig::with_current_server_codes);
        }
        let strategy = Arc::clone(&self.strategy);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(self.limit))
            .map_err(BoxError::from)
            .layer(RetryLayer::new(classifier, strategy))
            .layer(PushbackLayer::new(KvPushback::new()))
            .option_layer(poll.map(ConfigPollLayer::new))
            .layer(ReportLayer::new(kv::report))
            .layer(kv::StageLayer::new())
            .service(CollectionClient::new(
                ClosingClient::new(self.routed.clone()),
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

    /// Waits until the client knows that its connection to this node is gone.
    pub async fn has_lost(&self, cluster: &Cluster, node: usize) {
        let node = self.routed.node(&cluster.node(node).addr().to_string());
        until(|| !node.is_connected()).await;
    }
}

/// Where the nodes listen, as seeds.
pub fn seeds(cluster: &Cluster) -> Vec<String> {
    cluster
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Where the nodes listen, as addresses.
pub fn addresses(cluster: &Cluster) -> Vec<Address> {
    let address = |seed: &String| seed.parse().expect("an address");
    seeds(cluster).iter().map(address).collect()
}

/// The requests for documents that a node saw.
pub fn data(cluster: &Cluster, node: usize) -> Vec<SeenRequest> {
    let mut seen = cluster.node(node).seen_data();
    seen.retain(|request| request.opcode != opcode::GET_CLUSTER_CONFIG);
    seen
}
