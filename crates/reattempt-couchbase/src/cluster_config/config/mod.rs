//! A cluster's configuration: its nodes, their services, and the owner of each vbucket.

mod node;
mod origin;
mod parse;
mod vbuckets;

use reattempt::config::{Fault, Faults};

pub use node::{Network, Node, Service};

use super::{Address, Revision, Route, VbucketMap};

/// The maximum size of a configuration in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// The maximum number of nodes, servers and alternate networks.
const MAX_NODES: usize = 4096;

/// The configuration of a bucket, or without a bucket of a cluster (the "terse" form, returned by
/// GET_CLUSTER_CONFIG and with status 0x07).
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
/// let json = br#"{"rev": -1, "nodesExt": [{"hostname": "h", "services": {"kv": 0}}]}"#;
/// let refused = ClusterConfig::parse(json, "10.0.0.1").unwrap_err();
/// let faults: Vec<_> = refused.faults().iter().map(ToString::to_string).collect();
/// assert_eq!(
///     faults,
///     [
///         "$.rev: must be an integer from 0 to 2^63-1",
///         "$.nodesExt[0].services.kv: must be a port from 1 to 65535",
///     ]
/// );
/// # Ok::<_, reattempt::config::Faults>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    revision: Revision,
    bucket: Option<Box<str>>,
    nodes: Vec<Node>,
    vbuckets: Option<VbucketMap>,
}

impl ClusterConfig {
    /// Parses a configuration that was received from the node at `origin` (a host without a port),
    /// which replaces `$HOST` and a missing hostname. An empty `origin` means unknown: a
    /// configuration that needs it is then rejected.
    ///
    /// # Errors
    /// Every reason to reject it, at most a hundred: it is too large, not JSON, or inconsistent. No
    /// part of it is used then.
    pub fn parse(json: &[u8], origin: &str) -> Result<Self, Faults> {
        Self::parse_with_warnings(json, origin).map(|(config, _)| config)
    }

    /// The same with warnings: a member is there twice, and the last one counts.
    pub fn parse_with_warnings(json: &[u8], origin: &str) -> Result<(Self, Vec<Fault>), Faults> {
        parse::FORM.read(json, |place, json| parse::config(place, json, origin))
    }

    /// Its position in the order of configurations.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The bucket it describes; `None` for the cluster's own configuration.
    #[must_use]
    pub fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }

    /// All nodes, in the server's order; at least one.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The owner of each vbucket; `None` for a cluster's own configuration, a memcached bucket, and
    /// a bucket without vbuckets yet.
    #[must_use]
    pub const fn vbuckets(&self) -> Option<&VbucketMap> {
        self.vbuckets.as_ref()
    }

    /// The key's vbucket and node; `None` if there are no vbuckets.
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Option<Route> {
        self.vbuckets.as_ref()?.route(key)
    }

    /// The addresses of a service on all nodes that run it, in this network.
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

    /// Whether a node has an address in this alternate network.
    pub(in crate::cluster_config) fn knows(&self, network: &Network) -> bool {
        self.nodes.iter().any(|node| node.is_in(network))
    }

    /// Determines the client's network by the address that it connects to: the network in which a
    /// node has this host. If two match, the one that also has the port; the default network if
    /// none matches.
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
