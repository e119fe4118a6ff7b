//! A cluster's configuration: its nodes, their services, and who owns which vbucket.

mod error;
mod node;
mod origin;
mod parse;
mod vbuckets;

pub use error::ConfigError;
use error::Faults;
pub use node::{Network, Node, Service};

use super::{Address, Revision, Route, VbucketMap};

/// The most bytes of a configuration that are read.
pub const MAX_BYTES: usize = 4 << 20;

/// The most nodes, servers and alternate networks that are read.
const MAX_NODES: usize = 4096;

/// The configuration of a bucket, or with no bucket of a cluster (the "terse" form that
/// GET_CLUSTER_CONFIG answers with and that comes with status 0x07).
///
/// ```
/// use reattempt_couchbase::ClusterConfig;
/// use reattempt_couchbase::cluster_config::{Network, Service};
///
/// let json = br#"{"rev": 7, "revEpoch": 1, "name": "shop", "nodesExt": [
///     {"hostname": "$HOST", "thisNode": true, "services": {"kv": 11210, "mgmt": 8091}}
/// ]}"#;
/// let config = ClusterConfig::parse(json, "10.0.0.1")?;
/// let kv = config.nodes()[0]
///     .address(Service::Kv, false, &Network::Default)
///     .unwrap();
/// assert_eq!(kv.to_string(), "10.0.0.1:11210");
///
/// let refused =
///     ClusterConfig::parse(br#"{"rev": -1, "nodesExt": []}"#, "10.0.0.1").unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "$.rev: must be an integer that is not negative"
/// );
/// # Ok::<_, reattempt_couchbase::cluster_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    revision: Revision,
    bucket: Option<Box<str>>,
    nodes: Vec<Node>,
    vbuckets: Option<VbucketMap>,
}

impl ClusterConfig {
    /// Reads a configuration that was got from the node at `origin` (a host without a port), which
    /// stands in for `$HOST` and for a hostname that is missing. An empty `origin` is one that is
    /// not known: such a configuration is refused then.
    ///
    /// # Errors
    /// If it is too large, not JSON, or contradicts itself. Nothing of it is used then.
    pub fn parse(json: &[u8], origin: &str) -> Result<Self, ConfigError> {
        let (config, faults) = parse::config(json, origin);
        match (config, faults.into_vec().into_iter().next()) {
            (Some(config), None) => Ok(config),
            (_, Some(fault)) => Err(fault),
            (None, None) => Err(ConfigError::at("$", "must be a configuration")),
        }
    }

    /// All that keeps a configuration from being used, in the order of its members, at most a
    /// hundred; nothing if [`ClusterConfig::parse`] would read it.
    ///
    /// ```
    /// use reattempt_couchbase::ClusterConfig;
    ///
    /// let faults = ClusterConfig::faults(
    ///     br#"{"rev": -1, "nodesExt": [{"hostname": "h", "services": {"kv": 0}}]}"#,
    ///     "h",
    /// );
    /// let paths: Vec<_> = faults.iter().map(ToString::to_string).collect();
    /// assert_eq!(
    ///     paths,
    ///     [
    ///         "$.rev: must be an integer that is not negative",
    ///         "$.nodesExt[0].services.kv: must be a port from 1 to 65535",
    ///     ]
    /// );
    /// ```
    #[must_use]
    pub fn faults(json: &[u8], origin: &str) -> Vec<ConfigError> {
        parse::config(json, origin).1.into_vec()
    }

    /// Its place in the order of configurations.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The bucket it is about; `None` for the cluster's own.
    #[must_use]
    pub fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }

    /// All nodes, in the server's order; at least one.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Who owns which vbucket; `None` for a cluster's own configuration, a memcached bucket, and a
    /// bucket that has none yet.
    #[must_use]
    pub const fn vbuckets(&self) -> Option<&VbucketMap> {
        self.vbuckets.as_ref()
    }

    /// Where a key belongs; `None` if there are no vbuckets.
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Option<Route> {
        self.vbuckets.as_ref()?.route(key)
    }

    /// The addresses of a service on all nodes that have it, in this network.
    pub fn addresses(
        &self,
        service: Service,
        tls: bool,
        network: &Network,
    ) -> impl Iterator<Item = Address> {
        self.nodes
            .iter()
            .filter_map(move |node| node.address(service, tls, network))
    }

    /// Finds out which network the client is in, by the address that it was told to connect to: the
    /// one in which a node has this host. Of two the one that also has the port; the default
    /// network if none has.
    #[must_use]
    pub fn network_of(&self, seed: &Address) -> Network {
        let matching = |with_port| {
            let of_node = |node: &Node| node.network_of(seed, with_port);
            self.nodes.iter().find_map(of_node)
        };
        matching(true)
            .or_else(|| matching(false))
            .unwrap_or_default()
    }
}
