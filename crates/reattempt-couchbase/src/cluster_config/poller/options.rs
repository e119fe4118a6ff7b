//! Options of the poller.

use std::time::Duration;

use reattempt::backoff::Randomness;

use crate::cluster_config::{Address, NetworkChoice};

/// RFC 0024's ConfigPollInterval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(2500);

/// RFC 0024's ConfigPollFloorInterval.
pub const DEFAULT_FLOOR: Duration = Duration::from_millis(50);

/// The poll interval of the JVM SDK during a rebalance, for
/// [`ConfigPollerOptions::while_changing`].
pub const WHILE_CHANGING: Duration = Duration::from_secs(1);

/// "Never": there is no instant for `Duration::MAX`.
pub(super) const LONGEST: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// How a [`ConfigPoller`](super::ConfigPoller) polls.
///
/// # Trade-offs
/// A shorter interval detects changes sooner that cause no error, and costs one small request to
/// one node each time, from every client. The server declares a node dead after 5 s at the
/// earliest: with 2.5 s a client learns of it half an interval later on average, one interval at
/// most. Shorter intervals mostly wait for the server, and the polls find no change.
///
/// With a shorter floor more errors cause a request: the newer configuration is found sooner, but
/// the remaining nodes get more requests while the cluster is in trouble, at most one round per
/// floor from every client: one request, and one more to the next node for each that fails, at
/// once. With a longer floor, a call whose node failed stays in its back-off until the floor has
/// elapsed or the next poll finds the change. A floor above the interval limits the polls too.
#[derive(Clone, Debug)]
pub struct ConfigPollerOptions {
    pub(super) interval: Duration,
    pub(super) floor: Duration,
    pub(super) while_changing: Option<Duration>,
    pub(super) fetch_timeout: Duration,
    pub(super) seeds: Vec<Address>,
    pub(super) first: bool,
    pub(super) network: NetworkChoice,
    pub(super) tls: bool,
    pub(super) randomness: Randomness,
}

impl ConfigPollerOptions {
    /// Interval 2.5 s, floor 50 ms, at most 2.5 s per node, the default network, no TLS, no seeds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            interval: DEFAULT_INTERVAL,
            floor: DEFAULT_FLOOR,
            while_changing: None,
            fetch_timeout: DEFAULT_INTERVAL,
            seeds: Vec::new(),
            first: true,
            network: NetworkChoice::default(),
            tls: false,
            randomness: Randomness::default(),
        }
    }

    /// The poll interval (ConfigPollInterval); at least the floor.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The minimum time between a request to a node and a round that an error causes
    /// (ConfigPollFloorInterval). A round asks one node after another until one answers.
    #[must_use]
    pub const fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// The poll interval during a rebalance that will move vbuckets: while the current
    /// configuration has a fast-forward map
    /// ([`VbucketMap::is_changing`](crate::cluster_config::VbucketMap::is_changing)). Unset or
    /// longer than the interval: no effect. Not part of RFC 0024; the JVM SDK uses
    /// [`WHILE_CHANGING`].
    #[must_use]
    pub const fn while_changing(mut self, interval: Duration) -> Self {
        self.while_changing = Some(interval);
        self
    }

    /// How long to wait for one node before the next one is tried. A shorter time skips a dead node
    /// sooner, and may skip one that is only slow.
    #[must_use]
    pub const fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.fetch_timeout = timeout;
        self
    }

    /// The nodes to poll while there is no configuration, or if none of its nodes answers: the
    /// whole cluster may have moved. Once more than eight of its nodes did not answer in a round,
    /// a seed is polled after each further one.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = Address>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Leaves the first configuration to the client, whose connections receive one during setup: an
    /// empty store is not filled at once, and the floor does not apply before the first poll or
    /// error.
    #[must_use]
    pub const fn first_from_client(mut self) -> Self {
        self.first = false;
        self
    }

    /// Which of the nodes' addresses to use: those of one [`Network`](super::super::Network), or
    /// those of the seeds' network ([`NetworkChoice::by_seeds`]), for a client that was given an
    /// alternate address of one node and reaches the others by theirs. The client has to choose in
    /// the same way: give it a clone.
    #[must_use]
    pub fn network(mut self, network: impl Into<NetworkChoice>) -> Self {
        self.network = network.into();
        self
    }

    /// Whether to use the TLS ports.
    #[must_use]
    pub const fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// The source of randomness for the first node; the thread's generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// A floor above the interval takes precedence. tokio supports no interval of zero, and no
    /// instant for `Duration::MAX` ("never").
    pub(super) fn effective_interval(&self) -> Duration {
        self.effective(self.interval)
    }

    pub(super) fn effective_while_changing(&self) -> Option<Duration> {
        self.while_changing.map(|interval| self.effective(interval))
    }

    fn effective(&self, interval: Duration) -> Duration {
        let interval = interval.max(self.floor);
        interval.clamp(Duration::from_millis(1), LONGEST)
    }
}

impl Default for ConfigPollerOptions {
    fn default() -> Self {
        Self::new()
    }
}
