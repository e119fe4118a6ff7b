//! Couchbase for reattempt: what a key-value answer means for another attempt, and which configuration is in force.
//!
//! | you have | you put in |
//! | --- | --- |
//! | a KV client as a `tower::Service` | [`KvAnswer`] on its response, [`KvTransportError`] on its error, [`KvRequest`] on its request |
//! | `RetryLayer::new(classifier, strategy)` | [`KvClassifier`] and `BestEffort`, or [`ErrorMapStrategy`] |
//! | `PushbackLayer::new(reader)` | [`KvPushback`] |
//! | `ConfigPollLayer::new(stale)` | [`StaleKvConfig`] over a [`ConfigStore`] and a [`ConfigPoller`] |
//!
//! Nothing here knows a particular client or opens a socket. Specifications: RFC 0049 (retry handling), RFC 0013 (KV
//! error map), RFC 0024 (fast failover).

pub mod cluster_config;
pub mod kv;
pub mod reasons;
#[cfg(test)]
mod testing;

pub use cluster_config::{
    Address, ClusterConfig, ConfigPoller, ConfigStore, FetchConfig, Network, Revision,
    StaleKvConfig,
};
pub use kv::{
    ErrorMap, ErrorMapStrategy, ErrorMaps, KvAnswer, KvClassifier, KvPushback, KvRequest,
    KvTransportError,
};
