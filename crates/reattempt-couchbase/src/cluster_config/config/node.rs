//! A node of the cluster and its addresses.

use crate::cluster_config::Address;

/// A service of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// The addresses that the nodes use among themselves.
    #[default]
    Default,
    /// Alternate addresses with this name; the server defines `external`.
    Alternate(Box<str>),
}

impl Network {
    /// The alternate addresses with the name `external`.
    #[must_use]
    pub fn external() -> Self {
        Self::Alternate("external".into())
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(super) hostname: Box<str>,
    pub(super) ports: Ports,
    pub(super) uuid: Option<Box<str>>,
    pub(super) alternates: Vec<Alternate>,
}

/// A node's host and ports in another network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alternate {
    pub(super) network: Box<str>,
    pub(super) hostname: Box<str>,
    /// `None`: the same ports as in the default network.
    pub(super) ports: Option<Ports>,
}

impl Node {
    /// The host in the default network, without brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// The node's identifier, which does not change with its address (`nodeUUID`).
    #[must_use]
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    /// The address of this service on this node; `None` if the node does not run it, or is not
    /// reachable from this network.
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

    /// Whether this node has alternate addresses of this name.
    pub(super) fn is_in(&self, network: &Network) -> bool {
        let named = |name: &str| self.alternates.iter().any(|a| *a.network == *name);
        matches!(network, Network::Alternate(name) if named(name))
    }

    /// The network in which this node has the host of `seed`, and its port with `with_port`.
    pub(super) fn network_of(&self, seed: &Address, with_port: bool) -> Option<Network> {
        let is = |hostname: &str, ports: &Ports| {
            hostname.eq_ignore_ascii_case(seed.host()) && (!with_port || ports.has(seed.port()))
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
