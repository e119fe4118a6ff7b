//! The cluster's configuration: its nodes and the owner of each key, kept current (RFC 0024).

mod address;
mod config;
mod network_choice;
mod poller;
mod revision;
mod stale;
mod store;
#[cfg(test)]
mod tests;
mod vbucket;

pub use address::{Address, AddressError};
pub use config::{ClusterConfig, ConfigError, MAX_BYTES, Network, Node, Service};
pub use network_choice::NetworkChoice;
pub use poller::{
    ConfigPoller, ConfigPollerOptions, DEFAULT_FLOOR, DEFAULT_INTERVAL, FetchConfig, FetchError,
    Refreshing, WHILE_CHANGING,
};
pub use revision::Revision;
pub use stale::{KvNote, StaleKvConfig};
pub use store::{ConfigStore, Swapped};
pub use vbucket::{Route, VbucketMap, vbucket_of};
