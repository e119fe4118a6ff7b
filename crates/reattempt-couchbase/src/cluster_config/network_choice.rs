//! The network that a client is in.

use std::sync::Arc;

use super::{Address, ClusterConfig, Network};

/// Which of the nodes' addresses a client uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Always the addresses of this network.
    Of(Network),
    /// The addresses of the network in which a node has the host of one of these seed addresses
    /// ([`ClusterConfig::network_of`]).
    BySeeds(Arc<[Address]>),
}

impl NetworkChoice {
    /// The network, determined with the nodes of this configuration.
    #[must_use]
    pub fn of(&self, config: &ClusterConfig) -> Network {
        match self {
            Self::Of(network) => network.clone(),
            Self::BySeeds(seeds) => seeds
                .iter()
                .map(|seed| config.network_of(seed))
                .find(|network| *network != Network::Default)
                .unwrap_or_default(),
        }
    }
}

impl Default for NetworkChoice {
    fn default() -> Self {
        Self::Of(Network::Default)
    }
}
