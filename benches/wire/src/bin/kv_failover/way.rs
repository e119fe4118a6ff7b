//! The three ways to get a newer configuration.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt_clients::kv::{self, RoutedClient};
use reattempt_couchbase::cluster_config::{ConfigPollerOptions, DEFAULT_FLOOR, DEFAULT_INTERVAL};
use reattempt_couchbase::{
    Address, ConfigPoller, ConfigStore, FetchConfig, Revision, StaleKvConfig,
};

/// The two values of RFC 0024.
pub(crate) const INTERVAL: Duration = DEFAULT_INTERVAL;
pub(crate) const FLOOR: Duration = DEFAULT_FLOOR;

/// How a client gets a newer configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Poll,
    Refresh,
    Both,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Poll, Self::Refresh, Self::Both];

    /// The poller of this way, its refresh on error if it has one, and the count of requests to
    /// nodes.
    pub(crate) fn start(
        self,
        store: &ConfigStore,
        client: &RoutedClient,
    ) -> (ConfigPoller, Option<StaleKvConfig>, Asked) {
        let asked = Asked::default();
        let (count, fetch) = (asked.clone(), Arc::new(kv::fetch_over(client.clone())));
        let fetch = move |node: Address, known: Option<Revision>| {
            count.0.fetch_add(1, Ordering::Relaxed);
            let fetch = Arc::clone(&fetch);
            async move { fetch.fetch(node, known).await }
        };
        let interval = if self == Self::Refresh {
            Duration::MAX
        } else {
            INTERVAL
        };
        let options = ConfigPollerOptions::new().interval(interval).floor(FLOOR);
        let poller = ConfigPoller::spawn(store.clone(), fetch, options);
        let refreshes = (self != Self::Poll).then(|| StaleKvConfig::new(poller.clone()));
        (poller, refreshes, asked)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Poll => "poll only",
            Self::Refresh => "refresh on error only",
            Self::Both => "both",
        })
    }
}

/// The number of configuration requests to nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<AtomicUsize>);

impl Asked {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
