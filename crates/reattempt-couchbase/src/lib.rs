//! Couchbase support for reattempt: classifies the responses of each service, and keeps the cluster
//! configuration current.
//!
//! | existing part | what to add |
//! | --- | --- |
//! | a KV client as a `tower::Service` | [`KvAnswer`] on its response, [`KvTransportError`] on its error, [`KvRequest`] on its request |
//! | `RetryLayer::new(classifier, strategy)` | [`KvClassifier`] and `BestEffort`, or [`ErrorMapStrategy`] |
//! | `PushbackLayer::new(reader)` | [`KvPushback`] |
//! | `ConfigPollLayer::new(stale)` | [`StaleKvConfig`] over a [`ConfigStore`] and a [`ConfigPoller`] |
//! | `RetryLayer::observer(…)` | that [`ConfigPoller`] too, beside `LogObserver`: it detects nodes that never answer |
//!
//! With feature `http` (on by default), for query, analytics, search, views and management:
//!
//! | existing part | what to add |
//! | --- | --- |
//! | an HTTP client as a `tower::Service` | `ServiceErrorLayer` directly above it, `ServiceIdempotencyLayer` outermost (module `service`) |
//! | `RetryLayer::new(classifier, strategy)` | `ServiceClassifier` over the HTTP client's own classifier, and `BestEffort` |
//!
//! This crate is independent of any client and opens no socket. Specifications: RFC 0049 (retry
//! handling), RFC 0013 (KV error map), RFC 0024 (fast failover).

#[cfg(feature = "http")]
pub mod analytics;
pub mod cluster_config;
pub mod kv;
#[cfg(feature = "http")]
pub mod management;
#[cfg(feature = "http")]
pub mod query;
pub mod reasons;
#[cfg(feature = "http")]
pub mod search;
#[cfg(feature = "http")]
pub mod service;
#[cfg(test)]
mod testing;
#[cfg(feature = "http")]
pub mod views;

pub use cluster_config::{
    Address, ClusterConfig, ConfigPoller, ConfigStore, FetchConfig, Network, Revision,
    StaleKvConfig,
};
pub use kv::{
    ErrorMap, ErrorMapStrategy, ErrorMaps, KvAnswer, KvClassifier, KvPushback, KvRequest,
    KvTransportError,
};
#[cfg(feature = "http")]
pub use service::{HttpService, ServiceClassifier, ServiceErrorLayer, ServiceIdempotencyLayer};
