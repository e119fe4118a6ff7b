//! What can be tuned.

use std::time::Duration;

use reattempt::backoff::Randomness;

use crate::cluster_config::{Address, Network, NetworkChoice};

/// RFC 0024's ConfigPollInterval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(2500);

/// RFC 0024's ConfigPollFloorInterval.
pub const DEFAULT_FLOOR: Duration = Duration::from_millis(50);

/// How often the JVM SDK polls during a rebalance, for [`ConfigPollerOptions::while_changing`].
pub const WHILE_CHANGING: Duration = Duration::from_secs(1);

/// How a [`ConfigPoller`](super::ConfigPoller) polls.
///
/// # Trade-offs
/// A shorter interval finds sooner what no error tells of, and costs one small request to one node
/// each time, from every client. The server declares a node dead after 5 s at the earliest: with
/// 2.5 s a client knows of it half an interval later on average, one interval at most. Below that
/// it is the server that is waited for, and the polls find nothing.
///
/// A shorter floor has more of the errors ask: the newer configuration is found sooner after it is
/// there, and the nodes that are left get more requests just when the cluster is in trouble, at
/// most one in each floor from every client. A longer one leaves a call that lost its node to its
/// back-off, until the floor is over or the next poll finds the change. A floor above the interval
/// bounds the polls too.
#[derive(Clone, Debug)]
pub struct ConfigPollerOptions {
    pub(super) interval: Duration,
    pub(super) floor: Duration,
    pub(super) while_changing: Option<Duration>,
    pub(super) fetch_timeout: Duration,
    pub(super) seeds: Vec<Address>,
    pub(super) first: bool,
    /// `None`: that of the seeds.
    pub(super) network: Option<Network>,
    pub(super) tls: bool,
    pub(super) randomness: Randomness,
}

impl ConfigPollerOptions {
    /// Every 2.5 s, a floor of 50 ms, at most 2.5 s for one node, the default network, no TLS, no
    /// seeds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            interval: DEFAULT_INTERVAL,
            floor: DEFAULT_FLOOR,
            while_changing: None,
            fetch_timeout: DEFAULT_INTERVAL,
            seeds: Vec::new(),
            first: true,
            network: Some(Network::Default),
            tls: false,
            randomness: Randomness::default(),
        }
    }

    /// How often to poll (ConfigPollInterval); never more often than the floor.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How long after a node was asked an error leads to no further asking
    /// (ConfigPollFloorInterval).
    #[must_use]
    pub const fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// How often to poll while a rebalance is going on that will move vbuckets: while the
    /// configuration in force has a fast-forward map
    /// ([`VbucketMap::is_changing`](crate::cluster_config::VbucketMap::is_changing)). Not said, or
    /// more than the interval: as ever. RFC 0024 does not know it; the JVM SDK does, with
    /// [`WHILE_CHANGING`].
    #[must_use]
    pub const fn while_changing(mut self, interval: Duration) -> Self {
        self.while_changing = Some(interval);
        self
    }

    /// How long to wait for one node before the next one is asked. A shorter time passes a dead
    /// node over sooner, and may pass over one that is only slow.
    #[must_use]
    pub const fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.fetch_timeout = timeout;
        self
    }

    /// Whom to ask while there is no configuration, or when none of its nodes answers: a cluster
    /// may have moved as a whole.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = Address>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Leaves the first configuration to the client, whose connections bring one when they are set
    /// up: an empty store is not filled at once, and nothing counts for the floor before the first
    /// poll or error.
    #[must_use]
    pub const fn first_from_client(mut self) -> Self {
        self.first = false;
        self
    }

    /// Which of the nodes' addresses to use.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Use the nodes' addresses in the network that the seeds are in
    /// ([`ClusterConfig::network_of`](crate::ClusterConfig::network_of)): a client that was given
    /// an alternate address of a node reaches the others by theirs. The client has to choose in the
    /// same way: [`NetworkChoice`].
    #[must_use]
    pub fn network_of_seeds(mut self) -> Self {
        self.network = None;
        self
    }

    /// Use the ports with TLS.
    #[must_use]
    pub const fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// Where the first node's number comes from; the thread's generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    pub(super) fn network_choice(&self) -> NetworkChoice {
        self.network.clone().map_or_else(
            || NetworkChoice::BySeeds(self.seeds.as_slice().into()),
            NetworkChoice::Of,
        )
    }

    /// A floor above the interval wins; tokio knows no interval of zero, and no instant for
    /// `Duration::MAX` ("never").
    pub(super) fn effective_interval(&self) -> Duration {
        self.effective(self.interval)
    }

    pub(super) fn effective_while_changing(&self) -> Option<Duration> {
        self.while_changing.map(|interval| self.effective(interval))
    }

    fn effective(&self, interval: Duration) -> Duration {
        const LONGEST: Duration = Duration::from_secs(60 * 60 * 24 * 365);
        let interval = interval.max(self.floor);
        interval.clamp(Duration::from_millis(1), LONGEST)
    }
}

impl Default for ConfigPollerOptions {
    fn default() -> Self {
        Self::new()
    }
}
