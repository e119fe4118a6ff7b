//! A node of the cluster and how to reach it.

use crate::cluster_config::Address;
use crate::cluster_config::address::bare;

/// A service of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Key-value.
    Kv,
    /// Cluster management.
    Management,
    /// Views.
    Views,
    /// Query.
    Query,
    /// Search.
    Search,
    /// Analytics.
    Analytics,
    /// Eventing.
    Eventing,
    /// Backup.
    Backup,
}

impl Service {
    /// The names of all services in a configuration, without and with TLS, in the order of the
    /// enum.
    pub(super) const NAMES: [[&'static str; 2]; 8] = [
        ["kv", "kvSSL"],
        ["mgmt", "mgmtSSL"],
        ["capi", "capiSSL"],
        ["n1ql", "n1qlSSL"],
        ["fts", "ftsSSL"],
        ["cbas", "cbasSSL"],
        ["eventingAdminPort", "eventingSSL"],
        ["backupAPI", "backupAPIHTTPS"],
    ];
}

/// The ports of all services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports(pub(super) [[Option<u16>; 2]; Service::NAMES.len()]);

impl Ports {
    pub(super) const fn get(&self, service: Service, tls: bool) -> Option<u16> {
        self.0[service as usize][tls as usize]
    }

    fn has(&self, port: u16) -> bool {
        self.0.as_flattened().contains(&Some(port))
    }
}

/// Which of a node's addresses are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// The addresses that the nodes use themselves.
    #[default]
    Default,
    /// Alternate addresses by this name; the server knows `external`.
    Alternate(Box<str>),
}

impl Network {
    /// The alternate addresses that the server calls `external`.
    #[must_use]
    pub fn external() -> Self {
        Self::Alternate("external".into())
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(super) hostname: Box<str>,
    pub(super) ports: Ports,
    pub(super) this_node: bool,
    pub(super) uuid: Option<Box<str>>,
    pub(super) alternates: Vec<Alternate>,
}

/// How a node is reached from another network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alternate {
    pub(super) network: Box<str>,
    pub(super) hostname: Box<str>,
    /// `None`: the same ports as inside.
    pub(super) ports: Option<Ports>,
}

impl Node {
    /// The host in the default network, without brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// True for the node that the configuration came from.
    #[must_use]
    pub const fn is_this_node(&self) -> bool {
        self.this_node
    }

    /// The node's own identifier, which stays when its address changes (`nodeUUID`).
    #[must_use]
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    /// Where this node's service is; `None` if it does not have it, or cannot be reached from this
    /// network.
    #[must_use]
    pub fn address(&self, service: Service, tls: bool, network: &Network) -> Option<Address> {
        let (hostname, ports) = match network {
            Network::Default => (&self.hostname, &self.ports),
            Network::Alternate(name) => {
                let alternate = self.alternates.iter().find(|a| a.network == *name)?;
                let ports = alternate.ports.as_ref().unwrap_or(&self.ports);
                (&alternate.hostname, ports)
            }
        };
        let port = ports.get(service, tls)?;
        Some(Address::new(hostname, port))
    }

    /// The network in which this node has the host (and the port) of `seed`.
    pub(super) fn network_of(&self, seed: &Address, with_port: bool) -> Option<Network> {
        let is = |hostname: &str, ports: &Ports| {
            bare(hostname).eq_ignore_ascii_case(seed.host())
                && (!with_port || ports.has(seed.port()))
        };
        if is(&self.hostname, &self.ports) {
            return Some(Network::Default);
        }
        self.alternates.iter().find_map(|alternate| {
            let ports = alternate.ports.as_ref().unwrap_or(&self.ports);
            is(&alternate.hostname, ports).then(|| Network::Alternate(alternate.network.clone()))
        })
    }
}
