//! The network that a client is in.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Address, ClusterConfig, Network};

/// Which of the nodes' addresses a client uses. Clones share what was found.
#[derive(Clone, Debug)]
pub struct NetworkChoice(Choice);

#[derive(Clone, Debug)]
enum Choice {
    Of(Network),
    BySeeds(Arc<Seeds>),
}

#[derive(Debug)]
struct Seeds {
    addresses: Box<[Address]>,
    /// The client's, once a seed had the alternate address of a node: the seeds may leave the
    /// cluster, and the client stays where it is.
    found: Mutex<Option<Network>>,
}

impl NetworkChoice {
    /// The addresses of the network in which a node has the host of one of these seed addresses
    /// ([`ClusterConfig::network_of`]). An alternate network that was found once stays, also when
    /// no node of a later configuration is a seed, unless none of its nodes has that network: then
    /// the seeds are matched again, so that one forged configuration does not leave the client
    /// without addresses for ever.
    pub fn by_seeds(seeds: impl IntoIterator<Item = Address>) -> Self {
        Self(Choice::BySeeds(Arc::new(Seeds {
            addresses: seeds.into_iter().collect(),
            found: Mutex::default(),
        })))
    }

    /// The network, determined with the nodes of this configuration.
    #[must_use]
    pub fn of(&self, config: &ClusterConfig) -> Network {
        let seeds = match &self.0 {
            Choice::Of(network) => return network.clone(),
            Choice::BySeeds(seeds) => seeds,
        };
        let mut found = seeds.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.as_ref().filter(|found| config.knows(found)) {
            return known.clone();
        }
        let mut networks = seeds.addresses.iter().map(|seed| config.network_of(seed));
        match networks.find(|network| *network != Network::Default) {
            Some(alternate) => found.insert(alternate).clone(),
            None => Network::Default,
        }
    }
}

/// Always the addresses of this network.
impl From<Network> for NetworkChoice {
    fn from(network: Network) -> Self {
        Self(Choice::Of(network))
    }
}

impl Default for NetworkChoice {
    fn default() -> Self {
        Network::Default.into()
    }
}
