//! The cluster's configuration: its nodes and the owner of each key, kept current (RFC 0024).

mod config;
mod network_choice;
mod revision;
#[cfg(test)]
mod tests;
mod vbucket;

// The configuration of a running client.
#[cfg(feature = "tokio")]
mod last_body;
#[cfg(feature = "tokio")]
mod poller;
#[cfg(feature = "tokio")]
mod stale;
#[cfg(feature = "tokio")]
mod store;

pub use crate::address::{Address, AddressError};
pub use config::{ClusterConfig, MAX_BYTES, Network, Node, Service};
pub use network_choice::NetworkChoice;
pub use revision::Revision;
pub use vbucket::{Route, VbucketMap, vbucket_of};

#[cfg(feature = "tokio")]
pub use {
    poller::{
        ConfigPoller, ConfigPollerOptions, DEFAULT_FLOOR, DEFAULT_INTERVAL, FetchConfig,
        FetchError, Refreshing, WHILE_CHANGING,
    },
    stale::{KvNote, StaleKvConfig},
    store::{ConfigStore, Swapped},
};
