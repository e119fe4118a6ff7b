//! Implements the traits of `reattempt-couchbase` for this client.

use std::sync::{Arc, Mutex};

use reattempt::{AttemptReporter, Backend, RetryReason, Stage, reason};
use reattempt_couchbase::cluster_config::{FetchError, NetworkChoice, Service};
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::reasons::KV_INVALID_REQUEST;
use reattempt_couchbase::{
    Address, ClusterConfig, ConfigStore, ErrorMap, ErrorMaps, FetchConfig, KvAnswer,
    KvTransportError, Network, Revision,
};
use tower_service::Service as _;

use super::VbucketMap;
use super::client::{
    ClientError, ClientOptions, KvRequest, KvResponse, NodeClient, RoutedClient, SendStage,
};
use super::feature::FEATURE_KNOWN_VERSION;
use super::frame::{FRAME_DURABILITY, framing_extras};
use crate::lock::lock;

impl reattempt_couchbase::KvRequest for KvRequest {
    fn opcode(&self) -> u8 {
        self.opcode.0
    }

    fn key(&self) -> Option<&[u8]> {
        self.is_keyed().then_some(&*self.key)
    }

    fn is_durable(&self) -> bool {
        let mut found = false;
        for extra in framing_extras(self.framing()) {
            let Ok((id, _)) = extra else { return false };
            found |= id == FRAME_DURABILITY;
        }
        found
    }
}

impl KvAnswer for KvResponse {
    fn status(&self) -> u16 {
        self.status.0
    }

    fn opcode(&self) -> u8 {
        self.opcode.0
    }

    fn value(&self) -> &[u8] {
        self.value()
    }

    fn framing_extras(&self) -> &[u8] {
        self.framing()
    }

    fn error_map(&self) -> Option<&ErrorMap> {
        self.error_map()
    }

    fn node(&self) -> Option<Address> {
        self.node().parse().ok()
    }
}

impl KvTransportError for ClientError {
    fn stage(&self) -> Stage {
        match Self::stage(self) {
            SendStage::NeverSent => Stage::Dispatch,
            SendStage::InFlight => Stage::InFlight,
        }
    }

    fn reason(&self) -> RetryReason {
        match self {
            Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::BootstrapClosed { .. }
            | Self::Bootstrap { .. }
            | Self::NoNode { .. } => reason::NODE_NOT_AVAILABLE,
            Self::ClosedInFlight { .. } => reason::SOCKET_CLOSED_WHILE_IN_FLIGHT,
            Self::NotSent { .. } => reason::SOCKET_NOT_AVAILABLE,
            Self::Invalid(_)
            | Self::NoCollections { .. }
            | Self::NoFramingExtras { .. }
            | Self::UnresolvedCollection { .. } => KV_INVALID_REQUEST,
            Self::Auth { .. } | Self::NoCollectionId { .. } => reason::UNKNOWN,
        }
    }

    fn node(&self) -> Option<Address> {
        self.address()?.parse().ok()
    }

    fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Auth { .. }
                | Self::Invalid(_)
                | Self::NoCollectionId { .. }
                | Self::NoCollections { .. }
                | Self::NoFramingExtras { .. }
                | Self::UnresolvedCollection { .. }
        )
    }
}

/// For a [`ReportLayer`](crate::report::ReportLayer): reports the node that answered or failed.
pub fn report(reporter: &AttemptReporter, outcome: Result<&KvResponse, &ClientError>) {
    let node = match outcome {
        Ok(answer) => Some(Backend::new(Arc::clone(answer.named()))),
        Err(error) => error.address().map(Backend::new),
    };
    if let Some(node) = node {
        reporter.backend(node);
    }
}

impl VbucketMap {
    /// The map of a configuration, with node addresses of this network; `None` when the
    /// configuration has no map.
    #[must_use]
    pub fn of(config: &ClusterConfig, network: &Network) -> Option<Self> {
        let vbuckets = config.vbuckets()?;
        let address = |node: &reattempt_couchbase::cluster_config::Node| {
            node.address(Service::Kv, false, network)
                .map_or_else(String::new, |address| address.to_string())
        };
        let owner = |vbucket| {
            let node = vbuckets.node(vbucket, 0);
            vec![node.and_then(|node| i16::try_from(node).ok()).unwrap_or(-1)]
        };
        let later = |vbucket| {
            let node = vbuckets.forward_node(vbucket, 0);
            vec![node.and_then(|node| i16::try_from(node).ok()).unwrap_or(-1)]
        };
        // A vbucket number has at most fifteen bits.
        let count = u16::try_from(vbuckets.len()).unwrap_or(u16::MAX);
        Some(Self {
            rev_epoch: config.revision().epoch,
            rev: config.revision().rev,
            nodes: config.nodes().iter().map(address).collect(),
            vbuckets: (0..count).map(owner).collect(),
            forward: if vbuckets.is_changing() {
                (0..count).map(later).collect()
            } else {
                Vec::new()
            },
        })
    }
}

/// A configuration, and the map created from it.
type Made = (Arc<ClusterConfig>, Option<Arc<VbucketMap>>);

/// For [`RoutedClient::new`](super::RoutedClient::new): the current map of a store, created once
/// per revision.
pub fn map_of(store: ConfigStore) -> impl Fn() -> Option<Arc<VbucketMap>> + Send + Sync + 'static {
    map_in(store, NetworkChoice::default())
}

/// Like [`map_of`], for a client outside the default network.
pub fn map_in(
    store: ConfigStore,
    network: NetworkChoice,
) -> impl Fn() -> Option<Arc<VbucketMap>> + Send + Sync + 'static {
    let made: Mutex<Option<Made>> = Mutex::default();
    move || {
        let config = store.load()?;
        let mut made = lock(&made);
        if let Some((of, map)) = &*made {
            if Arc::ptr_eq(of, &config) {
                return map.clone();
            }
        }
        let map = VbucketMap::of(&config, &network.of(&config)).map(Arc::new);
        *made = Some((config, map.clone()));
        map
    }
}

/// For [`ClientOptions::on_config`]: offers each received configuration to the store.
pub fn offer_to(store: ConfigStore) -> impl Fn(&[u8], &str) + Send + Sync + 'static {
    move |body, host| match ClusterConfig::parse(body, host) {
        Ok(config) => {
            store.compare_and_swap(config);
        }
        Err(error) => tracing::debug!(%error, host, "a configuration is refused"),
    }
}

/// For [`ClientOptions::on_error_map`]: stores each node's map for an `ErrorMapStrategy`, under the
/// name that [`report`] uses.
pub fn keep_in(maps: ErrorMaps) -> impl Fn(&[u8], &str) + Send + Sync + 'static {
    move |body, node| match ErrorMap::parse(body) {
        Ok(map) => maps.insert(Backend::new(node), map),
        Err(error) => tracing::debug!(%error, node, "an error map is refused"),
    }
}

/// Fetches a node's configuration over a separate connection, for a `ConfigPoller`.
///
/// Each fetch logs in anew: prefer [`fetch_over`] with a [`RoutedClient`]. The configuration
/// received during the bootstrap is the result, and is asked for only without one.
#[must_use]
pub fn fetch_with(options: ClientOptions) -> impl FetchConfig {
    move |node: Address, known: Option<Revision>| {
        let client = NodeClient::new(node.to_string(), options.clone());
        fetch(client, node, known)
    }
}

/// Fetches a node's configuration over the client's existing connection, for a `ConfigPoller`.
///
/// Without a connection one is opened, and the configuration received during its bootstrap is the
/// result, so that a node is asked once. Requests that wait because of
/// [`ClientOptions::max_in_flight`] delay no fetch.
#[must_use]
pub fn fetch_over(client: RoutedClient) -> impl FetchConfig {
    move |node: Address, known: Option<Revision>| fetch(client.node(&node.to_string()), node, known)
}

async fn fetch(
    client: NodeClient,
    node: Address,
    known: Option<Revision>,
) -> Result<Option<ClusterConfig>, FetchError> {
    let connected = client.is_connected();
    let mut connection = client.connect().await?;
    let bootstrapped = (!connected).then(|| connection.cluster_config_json());
    if let Some(config) = bootstrapped.flatten() {
        return Ok(Some(ClusterConfig::parse(&config, node.host())?));
    }
    // A node without this feature rejects a request with a revision as malformed.
    let agreed = connection.features().contains(&FEATURE_KNOWN_VERSION);
    let known = known.filter(|_| agreed);
    let known = known.map(|known| (known.epoch, known.rev));
    // Not through the node's client, whose limit may be used up by calls to a silent node.
    std::future::poll_fn(|cx| connection.poll_ready(cx)).await?;
    let request = KvRequest::get_cluster_config(known);
    config_in(&connection.call(request).await?, &node)
}

fn config_in(answer: &KvResponse, node: &Address) -> Result<Option<ClusterConfig>, FetchError> {
    if answer.status != Status::SUCCESS {
        let refused = format!("{node} answered with status {:#04x}", answer.status.0);
        return Err(FetchError::from(refused));
    }
    if answer.value().is_empty() {
        return Ok(None);
    }
    Ok(Some(ClusterConfig::parse(answer.value(), node.host())?))
}

#[cfg(test)]
mod tests {
    use reattempt::health::Outcome;
    use reattempt::{CallContext, Classify, Verdict};
    use reattempt_couchbase::KvClassifier;

    use super::*;

    #[test]
    fn what_the_request_itself_breaks_opens_no_circuit() {
        let address: Arc<str> = "node:11210".into();
        let outcome = |error: ClientError| {
            let verdict = KvClassifier::new()
                .classify(Err::<&KvResponse, _>(&error), &CallContext::default());
            assert!(matches!(verdict, Verdict::Fatal(_)), "{error}");
            Outcome::of(&verdict)
        };
        let unresolved = ClientError::UnresolvedCollection {
            address: Arc::clone(&address),
            path: "a.b".into(),
        };
        assert_eq!(outcome(unresolved), Outcome::Nothing);
        let problem = "no such user".into();
        let refused = ClientError::Auth { address, problem };
        assert_eq!(outcome(refused), Outcome::Failure);
    }
}
