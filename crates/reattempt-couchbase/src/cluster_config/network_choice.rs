//! In which network a client is.

use std::sync::Arc;

use super::{Address, ClusterConfig, Network};

/// Which of the nodes' addresses a client uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Always those of this network.
    Of(Network),
    /// Those of the network in which a node has the host of one of these addresses, which the
    /// client was told to connect to ([`ClusterConfig::network_of`]).
    BySeeds(Arc<[Address]>),
}

impl NetworkChoice {
    /// The network, with the nodes of this configuration.
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
